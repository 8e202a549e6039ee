"""``Termination``: what a process does when its launcher ends the job by SIGTERM, as torchrun and mpirun do.

The tests that will not run are named at once. The test that runs comes to its verdict, by its supervisor,
which gives up on the other ranks; unittest is told to run no other, and reports as ever. A thread hears of
the signal, because the thread that runs the test may be in C for long.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import types
import unittest
from collections.abc import Callable

from harness.communication.taps import taps
from harness.ranks.external.unittest_run import UnittestRun

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


class EndedByLauncher(BaseException):
    """Raised in a test without ranks that runs while the launcher ends the job."""


class _Ear(threading.Thread):
    """The thread that hears the signal: one of the harness, which sets no test's ranks going."""


class Termination:
    """This process's ear for SIGTERM. ``came`` is set when the launcher has sent it.

    ``run`` is the unittest run as it stands at the running test. ``supervised`` is True while a supervisor
    watches that test, and ends it. ``tell`` gets the ids of the tests that do not run; ``not_run`` has them
    afterwards, when the suite no longer knows the test that ran.
    """

    def __init__(self, tell: Callable[[tuple[str, ...]], object], came: threading.Event) -> None:
        self.came = came
        self.run = UnittestRun()
        self.supervised = False
        self.not_run: tuple[str, ...] = ()
        self._tell = tell
        self._owner = os.getpid()
        self._raised = False
        self._told = threading.Lock()

    def listen(self) -> bool:
        """Begins to listen; False where this is no main thread, or somebody handles the signal already."""
        if threading.current_thread() is not threading.main_thread():
            return False
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return False
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
            os.close(reader)
            os.close(writer)
            return False
        signal.signal(signal.SIGTERM, self._on_signal)
        # A child that is sent the signal at once is sent it for itself, with a handler of its own.
        os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_forget)
        _Ear(target=self._hear, args=(reader,), name="harness: hears SIGTERM", daemon=True).start()
        return True

    def _hear(self, reader: int) -> None:
        taps.leave_this_thread_out()
        while True:
            signals = os.read(reader, 64)
            # A test may have a handler of its own, and then the signal is its business.
            if signal.SIGTERM in signals and signal.getsignal(signal.SIGTERM) == self._on_signal:
                self._begin()
                return

    def _begin(self) -> None:
        if not self._told.acquire(blocking=False):
            return
        self.came.set()
        self.run.stop()
        self.not_run = self.run.tests[1:]
        self._tell(self.not_run)

    def _on_signal(self, _: int, frame: types.FrameType | None) -> None:
        self._begin()
        if not (self.supervised or self._raised) and _in_test(frame):
            self._raised = True
            raise EndedByLauncher("the launcher ends the job (SIGTERM)")


def _block() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _forget() -> None:
    """In a child that a test forks: SIGTERM ends it, and its parent does not hear of that."""
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _unblock()


def _in_test(frame: types.FrameType | None) -> bool:
    """Whether unittest runs a test in these frames, so that it takes an exception for the test's."""
    while frame is not None:
        if frame.f_code.co_name == "_callTestMethod" and isinstance(
            frame.f_locals["self"], unittest.TestCase
        ):
            return True
        frame = frame.f_back
    return False


def announce(rank: int, tests: tuple[str, ...]) -> None:
    """Says that the launcher ends the job.

    Rank 0 names the tests that do not run; the others say it in a line.
    """
    lines = [f"harness: rank {rank}: the launcher ends the job (SIGTERM); {number_of(tests)} after this one"]
    if rank == 0:
        lines += not_run_lines(tests)
    print("\n".join(lines), file=sys.stderr, flush=True)


def number_of(tests: tuple[str, ...]) -> str:
    """How many tests do not run, in words."""
    return "no test comes" if not tests else f"{len(tests)} test{'s' * (len(tests) > 1)} will not run"


def not_run_lines(tests: tuple[str, ...]) -> list[str]:
    """A line for each test that does not run."""
    return [f"  did not run: {test}" for test in tests]
