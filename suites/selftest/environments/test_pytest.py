"""Tests runs by pytest, with its options and in environments in which it does something of its own."""

from __future__ import annotations

import functools
import os
import signal
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import instantiate_parametrized_tests, parametrize
from suites.selftest.environments.rows import EnvironmentCase, Row, each
from suites.selftest.environments.test_limits import held_to_rights
from suites.selftest.environments.test_places import ODD_NAMES

by_pytest: Callable[..., Row] = functools.partial(Row, by=("pytest",))


def with_conftest(name: str, code: str, **fields: Any) -> Row:
    """Returns the row of a conftest.py beside the test module."""

    def write(directory: Path) -> None:
        (directory / "conftest.py").write_text(code, encoding="utf-8")

    return by_pytest(name, prepare=write, **fields)


def with_options(*arguments: str, **fields: Any) -> Row:
    """Returns the row of some of pytest's options."""
    return by_pytest(
        f"``pytest {' '.join(arguments)}``",
        arguments=[word for argument in arguments for word in argument.split()],
        **fields,
    )


def _make_odd(directory: Path) -> None:
    (directory / ODD_NAMES).mkdir()


def _read_only(directory: Path) -> None:
    directory.chmod(0o555)


ROWS = (
    with_options("-s"),
    with_options("--capture=sys"),
    with_options("-W error"),
    with_options("-n 2"),
    with_options("--import-mode=importlib"),
    with_options("--assert=plain"),
    with_options("-p no:faulthandler"),
    by_pytest("``python -W error -X dev -m pytest``", flags=("-W", "error", "-X", "dev")),
    by_pytest("``python -OO -m pytest``", flags=("-OO",)),
    by_pytest("``PYTEST_DISABLE_PLUGIN_AUTOLOAD=1``", variables={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}),
    by_pytest(
        "every signal blocked, pytest",
        in_child=functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK, signal.valid_signals()),
    ),
    by_pytest("standard input closed, pytest", in_child=functools.partial(os.close, 0)),
    by_pytest(
        "``TMPDIR`` with odd characters, pytest",
        variables={"TMPDIR": "{here}/" + ODD_NAMES},
        prepare=_make_odd,
    ),
    by_pytest(
        "``LC_ALL=C``, no UTF-8, pytest",
        variables={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ),
    held_to_rights("a tree that cannot be written, pytest", below="tree", prepare=_read_only, by=("pytest",)),
    with_conftest(
        "a ``conftest.py`` that starts a thread",
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
    ),
    with_conftest(
        "a ``conftest.py`` that computes with torch",
        "import torch\ntorch.ones(900, 900) @ torch.ones(900, 900)\n",
    ),
)


class PytestTest(EnvironmentCase):
    """Options and environments of pytest."""

    @parametrize("row", each(ROWS))
    def test_row(self, row: Row) -> None:
        """The run comes to what the row says."""
        self.run_row(row)


instantiate_parametrized_tests(PytestTest)

if __name__ == "__main__":
    unittest.main()
