"""``RankThread``: one rank that is a thread, with its channel, process groups, collectives and stack."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from harness.communication.call_log import LOG_BYTES, CallLog
from harness.communication.history import history_of_thread
from harness.communication.record.chaos import chaos_of, recorder
from harness.communication.taps.taps import members_of, value_recorder
from harness.communication.tensor_values.values import ValueFile
from harness.conformance import cells
from harness.outcomes import SubtestOutcome
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.thread_stack import stack_of

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


# Seconds that a thread which runs Python has to take an exception before others may call functions again.
TAKEN_S = 0.001
_HANGS = sys.version_info[:2] == (3, 11)
# Bound now, for ``_take_exception``, and because torch_groups replaces ``time.sleep``.
_send_exception, _c_ulong = ctypes.pythonapi.PyThreadState_SetAsyncExc, ctypes.c_ulong
_SYSTEM_EXIT = ctypes.py_object(SystemExit)
_sleep, _get_ident = time.sleep, threading.get_ident


class RankEnded(SystemExit):
    """Raised in a rank whose test is already over, to end its thread; it is no failure of the rank."""


@dataclass(frozen=True, slots=True)
class ThreadEnded:
    """Event for the supervisor: the rank's thread is about to end."""

    rank: int


Body = Callable[[int, DirectChannel], object]


class ThreadOwner(Protocol):
    """What a rank's thread needs of the rank set that it belongs to; see ``rank_set.RankThreads``."""

    over: bool
    abandoned: tuple[int, ...]

    def run_rank(self, thread: RankThread) -> None:
        """Runs the rank, from its first acquisition of the run token until its groups are destroyed."""
        ...

    def on_thread_end(self, thread: RankThread) -> None:
        """Called last, when the rank's thread is about to end."""
        ...

    def subtest_failed(self, rank: int, subtest: SubtestOutcome) -> None:
        """Called when a sub-test fails."""
        ...


class RankThread(threading.Thread):
    """The daemon thread of one rank. ``world`` is the rank's state of ``torch.distributed``.

    ``values`` is the directory for the values of its calls where they are checked; ``recorded`` are the
    arguments of ``cells.install``.
    """

    def __init__(
        self, owner: ThreadOwner, rank: int, values: str = "", recorded: tuple[str, int, int] = ("", 0, 1)
    ) -> None:
        super().__init__(name=f"rank {rank}", daemon=True)
        self.owner: Any = owner
        self.rank = rank
        self.channel = DirectChannel(subtest_failed=functools.partial(owner.subtest_failed, rank))
        self.world: Any = None
        self.released = threading.Event()
        self.calls = mmap.mmap(-1, LOG_BYTES)  # its communication calls, as in a rank that is a process
        self.log = CallLog(self.calls)
        self.recorder = recorder(self.log, members_of, chaos_of(os.environ, rank))
        self.values: Any = value_recorder(self.log, ValueFile(values, rank).append) if values else None
        self._recorded = recorded
        self.sequence: dict[str, int] = {}
        self.waits = False  # whether it waits for other ranks (collective, store) or for the run token
        self._gate = threading.Lock()  # held while an interruption is sent, and while the body's end is noted
        self._in_body = False
        self._interrupted = False

    def run(self) -> None:
        """Runs the rank and reports the thread's end; SystemExit ends the thread silently."""
        with contextlib.suppress(SystemExit):
            try:
                self.owner.run_rank(self)
            finally:
                self.owner.on_thread_end(self)

    def check_sizes(self, token: int) -> None:
        """Raises MismatchError where gloo would end the process of all ranks for a call of this one."""
        call = self.log.call(token)
        if call is not None:
            self.owner.sizes.check(self.rank, call)

    def end_of(self, body: Body) -> BaseException | None:
        """Runs the body of the rank, and returns the exception that left it.

        ``interrupt`` reaches the body alone, and not what the thread does afterwards.
        """
        ending: BaseException | None = None
        try:
            self._in_body = True
            cells.install(*self._recorded)
            with history_of_thread(self.log):
                body(self.rank, self.channel)
        except BaseException as error:  # noqa: BLE001 - every exception becomes this rank's outcome
            ending = error
        try:
            self._leave_body()
        except SystemExit:  # it was on its way when the body ended, and the next one is not sent so soon
            self._leave_body()
        return ending

    def _leave_body(self) -> None:
        with self._gate:
            self._in_body = False
        if self._interrupted:  # the interruption may not have been raised yet
            _take_exception()

    def interrupt(self) -> None:
        """Raises SystemExit in the rank's body at its next bytecode, if the thread is in it.

        The exception is SystemExit itself and not a subclass, because a thread may end with it silently. It
        does not reach a thread that waits in C (python/cpython#144748, python/cpython#137958).
        """
        with self._gate:
            if self._in_body:
                self._interrupted = True
                _take_exception(self.ident)

    def next_number(self, key: str) -> int:
        """The number of this rank's next collective of a group: 1 for the first, then 2, and so on."""
        number = self.sequence[key] = self.sequence.get(key, 0) + 1
        return number

    def stop_if_over(self) -> None:
        """Raises RankEnded where the test is over."""
        if self.owner.over:
            raise RankEnded(f"the test of rank {self.rank} is over")

    def stack(self) -> str:
        """The thread's stack in faulthandler's form, innermost frame first; "" where it has none."""
        return stack_of(self.ident or 0)


def _take_exception(sent_to: int | None = None) -> None:
    """Raises SystemExit in a thread, if given; then catches one here, in the place of any that is on its way.

    As long as an exception is on its way to a thread, any thread that has a trace or profile function (of
    coverage, of a debugger) hangs in Python 3.11 where it enters a function: so it calls none meanwhile. To
    take the exception back does not help there, to catch one does.
    """
    try:
        if sent_to is not None:
            _send_exception(_c_ulong(sent_to), _SYSTEM_EXIT)
            if not _HANGS:
                return
            _sleep(TAKEN_S)
        _send_exception(_c_ulong(_get_ident()), _SYSTEM_EXIT)
        while True:  # the next bytecode that looks raises it
            pass
    except SystemExit:
        if sent_to == _get_ident():
            raise


def current() -> RankThread | None:
    """The rank whose thread is the calling one, or None."""
    thread = threading.current_thread()
    return thread if isinstance(thread, RankThread) else None
