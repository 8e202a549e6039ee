"""The command by which a user runs a test again that Bazel has run: its directories are gone afterwards.

Bazel says by ``TEST_TARGET`` and ``TEST_SRCDIR`` what it runs. A test gets the variables that ``--test_env``
names alone, and there is one ``--test_filter``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

_TARGET = "TEST_TARGET"
_SOURCES = "TEST_SRCDIR"
_PROGRAM = ("bazel", "test")


def command(environ: Mapping[str, str], variables: Mapping[str, str]) -> str | None:
    """The command that runs this process's target again, with variables; None outside of Bazel."""
    target = environ.get(_TARGET)
    if not target or not environ.get(_SOURCES):
        return None
    return shlex.join([*_PROGRAM, target, *(with_variable(*each) for each in variables.items())])


def with_variable(name: str, value: object) -> str:
    """The option that sets a variable in the test."""
    return f"--test_env={name}={value}"


def only(name: str) -> str:
    """The option that chooses a test by ``Class.method``."""
    return f"--test_filter={name}"


def is_bazel(command: str) -> bool:
    """Whether it is Bazel that a command starts."""
    return command.split()[:2] == list(_PROGRAM)
