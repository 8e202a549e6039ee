"""Ranks that hang: rank 1 does, and rank 0 passes unless the method says otherwise.

A rank arrives where it hangs, and hardly any time is left once all others have reported.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import threading
from typing import NoReturn

from harness import RankTestError
from suites.selftest.faults.base import FaultyCase


def wait_in_python(case: FaultyCase | None = None) -> NoReturn:
    """Never returns; a stack has to show this frame, from the moment at which ``case`` arrives."""
    if case is not None:
        case.arrive()
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

    def __init__(self, case: FaultyCase) -> None:
        self._case = case

    def __del__(self) -> None:
        wait_in_python(self._case)


class Hangs(FaultyCase):
    """Has one method for each kind of hang."""

    arrivals = 2
    left_s = 0.1  # enough for a rank to get from where it arrives into C, on an idle machine

    def is_to_hang(self) -> bool:
        """Returns True in rank 1; rank 0 is done."""
        if self.rank == 0:
            self.leave()
        return self.rank == 1

    def test_in_python(self) -> None:
        """Rank 1 hangs in Python, where signals still reach the interpreter."""
        if self.is_to_hang():
            wait_in_python(self)

    def test_in_c_with_the_gil(self) -> None:
        """Rank 1 hangs in C with the GIL held, so that it can run no Python code any more."""
        if self.is_to_hang():
            self.arrive()
            lock_twice()

    def test_in_c_with_the_gil_and_sigterm_ignored(self) -> None:
        """Rank 1 hangs in C with the GIL held and ignores SIGTERM, so that only SIGKILL ends it."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.is_to_hang():
            self.arrive()
            lock_twice()

    def test_in_a_sleep(self) -> None:
        """Rank 1 sleeps in C, and passes once a signal wakes it."""
        if self.is_to_hang():
            self.arrive()
            sleep_in_c(hold_the_gil=False)

    def test_in_a_sleep_with_the_gil(self) -> None:
        """Rank 1 sleeps in C with the GIL held, and passes once a signal wakes it."""
        if self.is_to_hang():
            self.arrive()
            sleep_in_c(hold_the_gil=True)

    def test_in_a_poll(self) -> None:
        """Rank 1 polls in C, and passes once a signal wakes it."""
        if self.is_to_hang():
            self.arrive()
            poll_in_c(hold_the_gil=False)

    def test_in_a_poll_with_the_gil(self) -> None:
        """Rank 1 polls in C with the GIL held, and passes once a signal wakes it."""
        if self.is_to_hang():
            self.arrive()
            poll_in_c(hold_the_gil=True)

    def test_in_a_read(self) -> None:
        """Rank 1 reads from a pipe in C that nobody writes to; the system can restart this call."""
        if self.is_to_hang():
            reader, _ = os.pipe()
            self.arrive()
            ctypes.CDLL(None).read(reader, ctypes.create_string_buffer(1), 1)

    def test_in_a_sleep_that_is_checked(self) -> None:
        """Rank 1 sleeps in C, and fails once a signal wakes it."""
        if self.is_to_hang():
            self.arrive()
            self.assertEqual(ctypes.CDLL(None).sleep(3600), 0)

    def test_in_sleeps_with_sigterm_caught(self) -> None:
        """Rank 1 sleeps in C, where it handles SIGTERM, and passes once two signals have come."""
        signal.signal(signal.SIGTERM, lambda *_: None)
        if self.is_to_hang():
            self.arrive()
            sleep_in_c(hold_the_gil=False)
            sleep_in_c(hold_the_gil=False)

    def test_with_sigterm_ignored(self) -> None:
        """Rank 1 hangs in Python and ignores SIGTERM, so that only SIGKILL ends it."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.is_to_hang():
            wait_in_python(self)

    def test_in_another_group(self) -> None:
        """Rank 1 hangs in the process group of its server, and ignores SIGTERM."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.is_to_hang():
            os.setpgid(0, os.getpgid(os.getppid()))
            wait_in_python(self)

    def test_with_everything_caught(self) -> None:
        """Rank 1 catches every exception that is meant to stop it and goes on."""
        signal.signal(signal.SIGTERM, _refuse)
        if self.is_to_hang():
            while True:
                try:
                    wait_in_python(self)
                except BaseException:  # noqa: BLE001 - catching everything is the fault
                    continue

    def test_stopped(self) -> None:
        """Rank 1 stops its own process, which can take no signal but SIGKILL."""
        if self.is_to_hang():
            self.arrive()
            os.kill(os.getpid(), signal.SIGSTOP)

    def test_in_a_destructor(self) -> None:
        """Rank 1 hangs in the destructor of a local variable."""
        if self.is_to_hang():
            clinging = Clinging(self)
            del clinging

    def test_in_a_cleanup(self) -> None:
        """Rank 1 hangs in a cleanup, after the method itself has passed."""
        if self.is_to_hang():
            self.addCleanup(wait_in_python, self)

    def test_after_a_sub_test(self) -> None:
        """Rank 1 fails in a sub-test and hangs after it, while rank 0 hangs inside the sub-test."""
        with self.subTest(n=1):
            if self.rank == 1:
                self.fail("why all ranks hang")
            wait_in_python(self)
        wait_in_python(self)


class HangsEverywhere(FaultyCase):
    """All ranks hang."""

    arrivals = 2
    left_s = 1.0  # for both ranks to get from where they arrive to the line on which they hang

    def test_everywhere(self) -> None:
        """All ranks hang on the same line."""
        wait_in_python(self)


class HangsAfterPeer(FaultyCase):
    """Rank 1 sleeps in C, where only a signal wakes it, and rank 0 does not wait for it."""

    arrivals = 2

    def test_after_a_failure(self) -> None:
        """Rank 1 sleeps in C while rank 0 fails, and fails in a way of its own once a signal wakes it."""
        self.arrive()
        if self.rank == 0:
            self.fail("the cause")
        self.assertEqual(ctypes.CDLL(None).sleep(3600), 0, "awake too early")

    def test_after_a_skip(self) -> None:
        """Rank 1 sleeps in C while rank 0 skips, and skips too once a signal wakes it."""
        self.arrive()
        if self.rank == 1:
            sleep_in_c(hold_the_gil=False)
        self.skipTest("not today")


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
    raise RankTestError("not now")
