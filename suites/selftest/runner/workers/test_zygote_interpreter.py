"""Tests when an interpreter that was started early is taken, what it is told then, and what ends it."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from harness.runner.workers import zygote_interpreter
from harness.runner.workers.zygote_interpreter import EarlyInterpreter
from harness.runner.workers.zygote_process import ZygoteProcess
from harness.system.server_process import start_interpreter
from suites.selftest.runner import runs

# Tells what of its environment a module sees when it is imported, as the names of its tests.
TELLS = """
def seen(name):
    return name + "_" + os.environ.get(name, "unset")
T = type("T", (unittest.TestCase,), {"test_" + seen(name): lambda self: None for name in NAMES})
"""


class EarlyInterpreterTest(unittest.TestCase):
    """``EarlyInterpreter``, alone and as a zygote's."""

    def setUp(self) -> None:
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        set_here = {"HARNESS_SEED": "1", "CI_NODE_INDEX": "1", "HARNESS_SLOW": "0"}
        self.stack.enter_context(mock.patch.dict(os.environ, set_here))

    def early(self) -> EarlyInterpreter:
        """An interpreter of this process's environment, which is ended after the test."""
        return self.stack.enter_context(EarlyInterpreter())

    def test_what_it_is_told(self) -> None:
        """A zygote takes it, and its modules see the variables of the run, not those of the start."""
        directory = runs.new_directory(self)
        names = ["HARNESS_SEED", "CI_NODE_INDEX", "HARNESS_SLOW", "PYTORCH_X"]
        runs.write_module(directory, "test_tells", f"NAMES = {names}\n{TELLS}")
        early = self.early()
        environ = {**os.environ, "HARNESS_SEED": "2", "PYTORCH_X": "3"}
        del environ["CI_NODE_INDEX"]
        with mock.patch.object(zygote_interpreter, "start") as start:
            zygote = ZygoteProcess(environ, sys.path, early=early)
        self.addCleanup(zygote.close)
        start.assert_not_called()
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        self.addCleanup(os.close, write)
        (loaded,) = zygote.load(["test_tells"], [str(directory)], read)
        self.assertEqual(loaded.error, "")
        self.assertEqual(
            sorted(str(unit["id"]).rpartition("test_")[2] for unit in loaded.units),
            ["CI_NODE_INDEX_unset", "HARNESS_SEED_2", "HARNESS_SLOW_0", "PYTORCH_X_3"],
        )

    def test_what_it_cannot_become(self) -> None:
        """Where an interpreter would have started otherwise, it is not taken, and left to who comes next."""
        early = self.early()
        environ = dict(os.environ)
        self.assertIsNone(early.take({**environ, "LD_LIBRARY_PATH": "/x"}, sys.path))
        self.assertIsNone(early.take({**environ, "PYTHONPATH": "/nowhere"}, sys.path))
        without = {name: value for name, value in environ.items() if name != "PATH"}
        self.assertIsNone(early.take(without, sys.path))
        self.assertIsNone(early.take(environ, ["/nowhere", *sys.path]))
        with mock.patch.object(os, "getcwd", return_value="/nowhere"):
            self.assertIsNone(early.take(environ, sys.path))
        taken = early.take(environ, sys.path)
        assert taken is not None
        self.assertEqual(taken.changes, {})
        self.assertIsNone(early.take(environ, sys.path), "it was given away twice")
        taken.control.close()  # ends it
        taken.log.close()
        os.waitpid(taken.pid, 0)

    def test_an_end_untaken(self) -> None:
        """One that nobody has taken ends with the context, at once."""
        started: list[int] = []

        def note(*given: Any, **named: Any) -> tuple[int, socket.socket]:
            pid, control = start_interpreter(*given, **named)
            started.append(pid)
            return pid, control

        with mock.patch.object(zygote_interpreter, "start_interpreter", note), EarlyInterpreter():
            self.assertTrue(Path(f"/proc/{started[0]}").exists())
        self.assertFalse(Path(f"/proc/{started[0]}").exists())

    def test_none(self) -> None:
        """Where none can be started, nothing is said and none is taken."""
        with mock.patch.object(zygote_interpreter, "start_interpreter", side_effect=OSError):
            early = self.early()
        self.assertIsNone(early.take(os.environ, sys.path))


if __name__ == "__main__":
    unittest.main()
