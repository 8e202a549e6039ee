"""Ranks that hang: rank 1 does, and rank 0 passes unless the method says otherwise.

All ranks arrive first, so that the short deadline of these tests runs against the hang alone.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import threading
from typing import NoReturn

from harness import RankProblem
from suites.selftest.faults.base import FaultyCase


def wait_in_python() -> NoReturn:
    """Never returns; a stack has to show this frame."""
    never = threading.Event()
    while True:
        never.wait(3600)


def lock_twice() -> None:
    """Never returns from C, whatever signal comes, and holds the GIL: PyDLL does not release it as CDLL
    would.
    """
    mutex = ctypes.create_string_buffer(64)  # zeros are PTHREAD_MUTEX_INITIALIZER, 40 bytes at most
    libc = ctypes.PyDLL(None)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


def sleep_in_c(*, hold_the_gil: bool) -> None:
    """Sleeps in C for an hour; a signal with a handler ends the sleep, after which this returns."""
    library: type[ctypes.CDLL] = ctypes.PyDLL if hold_the_gil else ctypes.CDLL
    library(None).sleep(3600)


def poll_in_c(*, hold_the_gil: bool) -> None:
    """Polls nothing for an hour in C; a signal with a handler ends the call, after which this returns."""
    library: type[ctypes.CDLL] = ctypes.PyDLL if hold_the_gil else ctypes.CDLL
    library(None).poll(None, 0, 3_600_000)


class Clinging:
    """An object whose destructor hangs."""

    def __del__(self) -> None:
        wait_in_python()


class Hangs(FaultyCase):
    """Has one method for each kind of hang."""

    arrivals = 2

    def is_to_hang(self) -> bool:
        """Returns True in rank 1; the deadline starts once both ranks have called this."""
        self.arrive()
        return self.rank == 1

    def test_in_python(self) -> None:
        """Rank 1 hangs in Python, where signals still reach the interpreter."""
        if self.is_to_hang():
            wait_in_python()

    def test_in_c_with_the_gil(self) -> None:
        """Rank 1 hangs in C with the GIL held, so that it can run no Python code any more."""
        if self.is_to_hang():
            lock_twice()

    def test_in_c_with_the_gil_and_sigterm_ignored(self) -> None:
        """Rank 1 hangs in C with the GIL held and ignores SIGTERM, so that only SIGKILL ends it."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.is_to_hang():
            lock_twice()

    def test_in_a_sleep(self) -> None:
        """Rank 1 sleeps in C, and passes once a signal wakes it."""
        if self.is_to_hang():
            sleep_in_c(hold_the_gil=False)

    def test_in_a_sleep_with_the_gil(self) -> None:
        """Rank 1 sleeps in C with the GIL held, and passes once a signal wakes it."""
        if self.is_to_hang():
            sleep_in_c(hold_the_gil=True)

    def test_in_a_poll(self) -> None:
        """Rank 1 polls in C, and passes once a signal wakes it."""
        if self.is_to_hang():
            poll_in_c(hold_the_gil=False)

    def test_in_a_poll_with_the_gil(self) -> None:
        """Rank 1 polls in C with the GIL held, and passes once a signal wakes it."""
        if self.is_to_hang():
            poll_in_c(hold_the_gil=True)

    def test_in_a_read(self) -> None:
        """Rank 1 reads from a pipe in C that nobody writes to; the system can restart this call."""
        if self.is_to_hang():
            reader, _ = os.pipe()
            ctypes.CDLL(None).read(reader, ctypes.create_string_buffer(1), 1)

    def test_in_a_sleep_that_is_checked(self) -> None:
        """Rank 1 sleeps in C, and fails once a signal wakes it."""
        if self.is_to_hang():
            self.assertEqual(ctypes.CDLL(None).sleep(3600), 0)

    def test_in_sleeps_with_sigterm_caught(self) -> None:
        """Rank 1 sleeps in C, where it handles SIGTERM, and passes once two signals have come."""
        signal.signal(signal.SIGTERM, lambda *_: None)
        if self.is_to_hang():
            sleep_in_c(hold_the_gil=False)
            sleep_in_c(hold_the_gil=False)

    def test_in_a_sleep_after_a_failure(self) -> None:
        """Rank 1 sleeps in C while rank 0 fails, and fails in a way of its own once a signal wakes it."""
        self.arrive()
        if self.rank == 0:
            self.fail("the cause")
        self.assertEqual(ctypes.CDLL(None).sleep(3600), 0, "awake too early")

    def test_in_a_sleep_after_a_skip(self) -> None:
        """Rank 1 sleeps in C while rank 0 skips, and skips too once a signal wakes it."""
        self.arrive()
        if self.rank == 1:
            sleep_in_c(hold_the_gil=False)
        self.skipTest("not today")

    def test_with_sigterm_ignored(self) -> None:
        """Rank 1 hangs in Python and ignores SIGTERM, so that only SIGKILL ends it."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.is_to_hang():
            wait_in_python()

    def test_with_everything_caught(self) -> None:
        """Rank 1 catches every exception that is meant to stop it and goes on."""
        signal.signal(signal.SIGTERM, _refuse)
        if self.is_to_hang():
            while True:
                try:
                    wait_in_python()
                except BaseException:  # noqa: BLE001 - catching everything is the fault
                    continue

    def test_in_a_destructor(self) -> None:
        """Rank 1 hangs in the destructor of a local variable."""
        if self.is_to_hang():
            clinging = Clinging()
            del clinging

    def test_in_a_cleanup(self) -> None:
        """Rank 1 hangs in a cleanup, after the method itself has passed."""
        if self.is_to_hang():
            self.addCleanup(wait_in_python)

    def test_after_a_sub_test(self) -> None:
        """Rank 1 fails in a sub-test and hangs after it, while rank 0 hangs inside the sub-test."""
        self.arrive()
        with self.subTest(n=1):
            if self.rank == 1:
                self.fail("why all ranks hang")
            wait_in_python()
        wait_in_python()

    def test_everywhere(self) -> None:
        """All ranks hang on the same line."""
        self.arrive()
        wait_in_python()


class HangsAtExit(FaultyCase):
    """The test passes, and the process of rank 1 does not end."""

    def test_in_atexit(self) -> None:
        """Rank 1 registers an exit handler that never returns."""
        if self.rank == 1:
            atexit.register(wait_in_python)


class PassesAfterwards(FaultyCase):
    """The test that runs in the same process after one that hangs."""

    def test_passes(self) -> None:
        """Passes."""


def _refuse(signum: int, frame: object) -> None:
    raise RankProblem("not now")
