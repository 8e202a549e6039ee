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

    def test_stopped(self) -> None:
        """Rank 1 stops its own process, which can take no signal but SIGKILL."""
        if self.is_to_hang():
            os.kill(os.getpid(), signal.SIGSTOP)

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
