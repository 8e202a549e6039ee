"""Tests runs without standard streams, and with signals that the parent blocked or ignores."""

from __future__ import annotations

import functools
import os
import signal
import unittest
from collections.abc import Callable

from harness import instantiate_parametrized_tests, parametrize
from suites.selftest.environments.rows import EnvironmentCase, Row, each


def _closing(*fds: int) -> Callable[[], None]:
    def close() -> None:
        for fd in fds:
            os.close(fd)

    return close


def _full(*fds: int) -> Callable[[], None]:
    def connect() -> None:
        full = os.open("/dev/full", os.O_WRONLY)
        for fd in fds:
            os.dup2(full, fd)

    return connect


def _without_reader() -> None:
    readable, writable = os.pipe()
    os.dup2(writable, 1)
    os.dup2(writable, 2)
    os.close(readable)
    os.close(writable)


def _ignoring(*numbers: int) -> Callable[[], None]:
    def ignore() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    return ignore


def _blocking(*numbers: int) -> Callable[[], object]:
    return functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK, numbers)


ROWS = (
    Row("standard input closed", in_child=_closing(0)),
    Row("standard output closed", in_child=_closing(1), silent=True),
    Row("standard error closed", in_child=_closing(2)),
    Row("all three closed", in_child=_closing(0, 1, 2), silent=True),
    Row(
        "all three closed, spawn",
        in_child=_closing(0, 1, 2),
        variables={"HARNESS_LAUNCHER": "spawn"},
        by=("unittest",),
    ),
    Row("output to a full disk", in_child=_full(1, 2), silent=True),
    Row("output to a closed pipe", in_child=_without_reader, silent=True),
    Row("every signal blocked", in_child=_blocking(*signal.valid_signals())),
    Row("SIGCHLD ignored", in_child=_ignoring(signal.SIGCHLD)),
    Row("SIGINT and SIGHUP ignored", in_child=_ignoring(signal.SIGINT, signal.SIGHUP)),
    Row("SIGTERM ignored", in_child=_ignoring(signal.SIGTERM)),
    Row("SIGPIPE at its default", in_child=functools.partial(signal.signal, signal.SIGPIPE, signal.SIG_DFL)),
)


class StreamsTest(EnvironmentCase):
    """Streams and signals."""

    @parametrize("row", each(ROWS))
    def test_row(self, row: Row) -> None:
        """The run comes to what the row says."""
        self.run_row(row)


instantiate_parametrized_tests(StreamsTest)

if __name__ == "__main__":
    unittest.main()
