"""``InProcessRank``: runs a test as a rank in the calling thread of a process that continues afterwards.

A rank process ends with its test; here the test is ended by an exception, its process groups are destroyed,
and other state that it left changed is reported.
"""

from __future__ import annotations

import gc
import mmap
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import Any

from harness.communication import call_log
from harness.communication.record.chaos import chaos_of
from harness.communication.record.recording import recording
from harness.communication_call import Call
from harness.outcomes import RankOutcome, Status, SubtestOutcome
from harness.ranks import guard, process_groups
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.result import RankResult, exit_forked_child, final_result
from harness.ranks.thread_stack import stack_of
from harness.system import originals
from harness.system.per_process import PerProcess
from harness.system.signals import STOP_TEST

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# How often a test is signalled, and the seconds in between. Their product is a part of the time to unwind.
SIGNALS = 5
SIGNAL_EVERY_S = 0.03


class _LogPage:
    """A process's call log; there is only one, because the recorder keeps its first log."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, call_log.LOG_BYTES)
        self.log = call_log.CallLog(self.memory)


_log_page = PerProcess(_LogPage)


def _too_late(*_: Any) -> None:
    """The signal handler after the test's end, which does nothing."""


class TestStopped(BaseException):
    """Raised in a test that the listener stops; it is no failure of the rank."""


class InProcessRank:
    """One test's rank. ``run`` is called once, in the test's thread; ``stop`` in any other thread.

    ``body`` gets the channel and runs the test. ``done`` is set when it has returned. ``interrupted`` is True
    where Ctrl-C ended it. ``patches`` are those of the case's ``setUp``, which hold for the body alone.
    """

    def __init__(
        self, rank: int, body: Callable[[DirectChannel], object], patches: tuple[originals.Patch, ...] = ()
    ) -> None:
        self.rank = rank
        self.done = threading.Event()
        self.interrupted = False
        self._body = body
        self._patches = originals.TestPatches(patches)
        self._thread = threading.get_ident()
        self._started = monotonic()
        self._inside = False
        self._raised = False
        self._ended_as: Status | None = None
        self._stack = ""
        self._calls: Sequence[Call] | None = None  # when it was stopped
        self._failed: list[SubtestOutcome] = []  # sub-tests that failed before the test was stopped

    def run(self) -> RankOutcome:
        """Runs the test to its end and returns its outcome; never raises what the test raises."""
        watch = guard.Guard()
        channel = DirectChannel(subtest_failed=self._subtest_failed, on_ready=watch.begin)
        log = _log_page.get().log
        log.clear()
        pid = os.getpid()
        with self._stoppable():
            watch.begin()
            self._patches.put_in_place()
            with recording(log, chaos=chaos_of(os.environ, self.rank)):
                ending = self._ending(channel)
            told = channel.result
            self._patches.put_away(originals.restore() if told is None else told.patches)
        if os.getpid() != pid:  # a child that the test forked must not report for the rank
            exit_forked_child(final_result(channel.result, ending, channel.texts))
        self.done.set()
        self.interrupted = isinstance(ending, KeyboardInterrupt)
        final = final_result(channel.result, ending, channel.texts)
        return self._outcome(final, (*self._patches.left, *watch.what_changed(keeps_group=False)))

    def _ending(self, channel: DirectChannel) -> BaseException | None:
        """Runs the body and returns the exception that left it, ``TestStopped`` included.

        ``TestStopped`` is raised at most once, and not after the ``finally``.
        """
        try:
            try:
                self._inside = True
                self._body(channel)
            finally:
                self._inside = False
        except BaseException as error:  # noqa: BLE001 - every exception becomes this rank's outcome
            self._inside = False
            return error
        return None

    def _subtest_failed(self, subtest: SubtestOutcome) -> None:
        if self._ended_as is None:
            self._failed.append(subtest)

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """A region that ``stop`` can interrupt, in the main thread, the only one that handles signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signal.signal(STOP_TEST, self._raise_once)
        try:
            yield
        finally:
            # Not the handler of before: a signal that is still pending would end the process.
            signal.signal(STOP_TEST, _too_late)

    def _raise_once(self, *_: Any) -> None:
        if self._inside and not self._raised:
            self._raised = True
            raise TestStopped

    def stop(self, status: Status) -> None:
        """Interrupts the test, if it still runs, as soon as it runs Python; its outcome is then ``status``.

        The outcome has the stack at the time of this call.
        """
        if not self._inside:
            return
        self._calls = call_log.read(_log_page.get().memory)
        self._stack = stack_of(self._thread, InProcessRank._ending.__code__)
        self._ended_as = status
        if self._thread == threading.main_thread().ident:
            self._interrupt()

    def log(self) -> tuple[call_log.Head, Sequence[Call]]:
        """The head of the rank's call log, and its calls."""
        memory = _log_page.get().memory
        return call_log.read_head(memory), call_log.read(memory)

    def _interrupt(self) -> None:
        """Signals the main thread until Python has handled the signal.

        One signal is not enough: if it arrives just before a call starts to wait, it does not wake the call.
        A thread that waits in C handles it after the wait.
        """
        for _ in range(SIGNALS):
            signal.pthread_kill(self._thread, STOP_TEST)
            if self.done.wait(SIGNAL_EVERY_S) or self._raised:
                return

    def stuck(self) -> RankOutcome:
        """The outcome of a test that was stopped and did not return."""
        note = "it could not be interrupted, so its process ended"
        return self._outcome(RankResult(self._ended_as or Status.ENDED, note=note), ())

    def _outcome(self, final: RankResult, left: tuple[str, ...]) -> RankOutcome:
        outcome = final.outcome(
            self.rank,
            self._started,
            exit_code=final.exit_code,
            calls=call_log.read(_log_page.get().memory) if self._calls is None else self._calls,
            left=left,
        )
        if self._ended_as is None:
            return outcome
        return replace(
            outcome,
            status=self._ended_as,
            error=None,
            skip_reason=None,
            subtests=tuple(self._failed),
            stack=self._stack,
        )


def clean_up(*, passed: bool) -> None:
    """Destroys the test's process groups, so that all ranks name and number the next test's alike.

    After a test that did not pass, a garbage collection closes its connections, which wakes waiting peers.
    """
    process_groups.destroy_groups_unless(keep=False)
    process_groups.reset_group_count()
    if not passed:
        gc.collect()  # exceptions and their frames form reference cycles, which keep the sockets open
