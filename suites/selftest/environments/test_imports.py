"""Tests runs of test modules that change their process when they are imported."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import instantiate_parametrized_tests, parametrize
from suites.selftest.environments.rows import EnvironmentCase, Row, each


def importing(name: str, code: str, **fields: Any) -> Row:
    """Returns the row of a test module that ends with the code."""

    def append(directory: Path) -> None:
        with (directory / "test_sample.py").open("a", encoding="utf-8") as module:
            module.write(code)

    prepare: Callable[[Path], None] = append
    return Row(name, prepare=prepare, **fields)


ROWS = (
    importing(
        "starts a thread",
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
    ),
    importing("computes with numpy", "import numpy\nnumpy.ones((600, 600)) @ numpy.ones((600, 600))\n"),
    importing("computes with torch", "import torch\ntorch.ones(900, 900) @ torch.ones(900, 900)\n"),
    importing(
        "calls ``multiprocessing.set_start_method``",
        "import multiprocessing\nmultiprocessing.set_start_method('spawn')\n",
    ),
    importing("forks", "import os\nif os.fork() == 0:\n    os._exit(0)\n"),
    importing(
        "starts a manager", "import multiprocessing\nm = multiprocessing.get_context('fork').Manager()\n"
    ),
    importing("closes standard input", "import os\nos.close(0)\n"),
    importing("ignores SIGCHLD", "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"),
    importing(
        "reaps every child in a handler",
        "import os, signal\nsignal.signal(signal.SIGCHLD, lambda *_: os.waitpid(-1, os.WNOHANG))\n",
        by=("run_tests",),
    ),
    importing(
        "blocks every signal",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n",
    ),
    importing("empties ``sys.path``", "import sys\nsys.path.clear()\n"),
    importing("empties ``os.environ``", "import os\nos.environ.clear()\n"),
    importing("sets a default timeout of sockets", "import socket\nsocket.setdefaulttimeout(0.001)\n"),
    importing("replaces ``time.time``", "import time\ntime.time = lambda: 0.0\n"),
)


class ImportsTest(EnvironmentCase):
    """Modules that change their process."""

    warm = True

    @parametrize("row", each(ROWS))
    def test_row(self, row: Row) -> None:
        """The run comes to what the row says."""
        self.run_row(row)


instantiate_parametrized_tests(ImportsTest)

if __name__ == "__main__":
    unittest.main()
