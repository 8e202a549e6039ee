"""Ranks that do not come back. Rank 0 passes unless said otherwise, rank 1 hangs.

All ranks arrive first, so that the short deadline of these rows runs against the hang alone.
"""

from __future__ import annotations

import atexit
import ctypes
import signal
import threading
from typing import NoReturn

from harness import RankProblem
from suites.selftest.faults.base import FaultyCase


def wait_in_python() -> NoReturn:
    """Never returns; the frame that a stack has to show."""
    never = threading.Event()
    while True:
        never.wait(3600)


def lock_twice() -> None:
    """Never returns from C, whatever signal comes, and PyDLL keeps the GIL that CDLL would give up."""
    mutex = ctypes.create_string_buffer(64)  # zeros are PTHREAD_MUTEX_INITIALIZER, 40 bytes of them at most
    libc = ctypes.PyDLL(None)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


class Clinging:
    """An object whose destructor hangs."""

    def __del__(self) -> None:
        wait_in_python()


class Hangs(FaultyCase):
    """One hang a method."""

    arrivals = 2

    def is_to_hang(self) -> bool:
        """True in rank 1; the deadline starts when both ranks have come here."""
        self.arrive()
        return self.rank == 1

    def test_in_python(self) -> None:
        """Where signals still reach the interpreter."""
        if self.is_to_hang():
            wait_in_python()

    def test_in_c_with_the_gil(self) -> None:
        """Where no Python code of this rank can run any more."""
        if self.is_to_hang():
            lock_twice()

    def test_in_c_with_the_gil_and_sigterm_ignored(self) -> None:
        """Likewise, and only SIGKILL helps."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.is_to_hang():
            lock_twice()

    def test_with_sigterm_ignored(self) -> None:
        """Only SIGKILL helps."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.is_to_hang():
            wait_in_python()

    def test_with_everything_caught(self) -> None:
        """A test that takes whatever stops it for a reason to go on."""
        signal.signal(signal.SIGTERM, _refuse)
        if self.is_to_hang():
            while True:
                try:
                    wait_in_python()
                except BaseException:  # noqa: BLE001 - the fault
                    continue

    def test_in_a_destructor(self) -> None:
        """Of a local of the test: it hangs as the method returns."""
        if self.is_to_hang():
            clinging = Clinging()
            del clinging

    def test_in_a_cleanup(self) -> None:
        """After the test itself has passed."""
        if self.is_to_hang():
            self.addCleanup(wait_in_python)

    def test_after_a_sub_test(self) -> None:
        """Rank 1 leaves a sub-test, and its peer waits in there for ever, as it does for its peer."""
        self.arrive()
        with self.subTest(n=1):
            if self.rank == 1:
                self.fail("why all ranks hang")
            wait_in_python()
        wait_in_python()

    def test_everywhere(self) -> None:
        """All ranks on the same line."""
        self.arrive()
        wait_in_python()


class HangsAtExit(FaultyCase):
    """The test passes, the process does not end."""

    def test_in_atexit(self) -> None:
        """An exit handler that waits for something that is gone."""
        if self.rank == 1:
            atexit.register(wait_in_python)


class PassesAfterwards(FaultyCase):
    """What runs after a hang, in the same process."""

    def test_passes(self) -> None:
        """Nothing wrong here."""


def _refuse(signum: int, frame: object) -> None:
    raise RankProblem("not now")
