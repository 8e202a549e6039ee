"""``RankThreads``: starts the rank threads of one test, collects their reports, releases or interrupts them.

    parent                           rank r (a thread)
      start -------------------------> acquire the run token, run the body
                                       collective: arrive, release the token, wait, acquire it again
      next_event <---- SubtestFailed - one of its sub-tests failed
      next_event <------ RankOutcome - the body has returned
      release -----------------------> destroy the groups
      next_event <------ ThreadEnded - X
      wake, interrupt ---------------> SystemExit, at its next bytecode
      interrupt ---------------------> SystemExit again, where a sub-test has taken it and the body goes on

A thread cannot be killed. One that waits in a threaded collective is woken; in one that runs Python
``SystemExit`` is raised, until it ends; one that waits anywhere else, or that takes every ``SystemExit``, is
abandoned: it is a daemon, and ends when its wait or its body ends.
"""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from harness.communication import call_log
from harness.communication.record.arguments import Arguments
from harness.communication.record.recorder import key_and_arguments
from harness.outcomes import RankOutcome, SubtestOutcome
from harness.protocol import SubtestFailed
from harness.ranks.result import final_result
from harness.ranks.threads.collective_matcher import CollectiveMatcher
from harness.ranks.threads.deadlock_watch import ThreadDeadlockWatch, WatchedThread
from harness.ranks.threads.rank import Body, RankThread, ThreadEnded
from harness.ranks.threads.rank_state import RankStates
from harness.ranks.threads.run_token import RunToken
from harness.ranks.threads.size_guard import SizeGuard
from harness.system import originals
from harness.system.garbage import GarbagePause

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# After a rank was found asleep with the run token this many times, all ranks run at once for the rest of the
# test.
MOST_PASSED_ON = 3
# Seconds for the threads of a test to end where ``join`` was never called; then they are abandoned.
UNWATCHED_S = 0.5
# Seconds between two interruptions of ranks that have to end: several times what a thread may wait for its
# turn (``sys.getswitchinterval``), and a fraction of the time that ranks have to end.
INTERRUPT_EVERY_S = 0.02
# Seconds for which the parent, which needs builtins, lets a rank go on that has replaced some: far more than
# a rank takes from there to its end. What the supervisor does may be so much late.
PATCHED_S = 0.1

# Bound now, because a rank may have them replaced for long.
_open, _exists = open, os.path.exists


@dataclass(frozen=True, slots=True)
class _Seen:
    """What ``look`` observed; the same twice in a row means that no rank moved in between."""

    handovers: int = -1
    ticks: int | None = None


@dataclass(slots=True)
class _Call:
    """One call of a threaded group's method; ``held`` are its contexts from arrival to return.

    ``token`` is that of the rank's log, None before the arrival.
    """

    thread: RankThread
    operation: str
    group: Any
    arguments: Arguments
    held: contextlib.ExitStack
    token: int | None = None
    values: Any = None  # what was kept of its arguments, where values are checked


class RankThreads:
    """The rank threads of one test, from ``start`` to ``close``; ``turns=False`` removes the run token.

    ``values`` is the directory for the values of the ranks' calls where they are checked, ``cells`` the one
    for the cells that they try where these are recorded.
    """

    def __init__(
        self,
        world_size: int,
        body: Body,
        *,
        timeout_s: float,
        turns: bool = True,
        values: str = "",
        cells: str = "",
    ) -> None:
        self.world_size = world_size
        self.threads = [
            RankThread(self, rank, values, (cells, rank, world_size)) for rank in range(world_size)
        ]
        self.over = False
        self.abandoned: tuple[int, ...] = ()
        self._body = body
        self._timeout_s = timeout_s
        self._patches = originals.patched()
        self._states = RankStates(world_size)
        self._token = RunToken(self._states)
        if not turns:
            self._token.disable()
        self._events: queue.SimpleQueue[SubtestFailed | RankOutcome | ThreadEnded] = queue.SimpleQueue()
        self._reported: set[int] = set()
        self._gone: set[int] = set()
        self._matcher = CollectiveMatcher()
        self.sizes = SizeGuard()
        self._inside = threading.local()
        self._installed = contextlib.ExitStack()
        self._garbage = GarbagePause()
        self._others = 0
        self._seen = _Seen()
        self._passed_on = 0
        self._watch = ThreadDeadlockWatch()
        self._closed = False

    # -- for the parent

    def start(self) -> None:
        """Installs the threaded process groups and starts the threads."""
        from harness.ranks.threads import torch_groups  # imports torch

        self._installed.enter_context(torch_groups.installed(self, self._timeout_s))
        # A collection that finds a gloo group may destroy it with the GIL, for which one of gloo's threads
        # may wait that the destructor joins. Between tests these have nothing to do.
        self._installed.callback(self._garbage.end, freeze=False)
        self._garbage.begin()
        self._others = threading.active_count()
        try:
            for thread in self.threads:
                thread.start()
            self.settle()
        except BaseException:  # the system may refuse a thread: those that were started must end
            self.close()
            raise

    def next_event(self, timeout_s: float | None) -> SubtestFailed | RankOutcome | ThreadEnded | None:
        """The next event of any rank, or None after ``timeout_s`` seconds; then calls ``settle``."""
        try:
            event = self._events.get(timeout=timeout_s)
        except queue.Empty:
            event = None
        self.settle()
        return event

    def settle(self) -> None:
        """Lets a rank that has a builtin or a standard function replaced come to the end of its turn.

        Called by the parent, before it does what needs builtins. Returns after ``PATCHED_S`` seconds at most.
        """
        if originals.patched() != self._patches:
            self._token.await_handover(PATCHED_S)

    def release(self) -> None:
        """Lets the ranks that have reported end."""
        for thread in self.threads:
            thread.released.set()

    @originals.harness_code
    def wake(self) -> None:
        """Marks the test as over, and ends every wait for the run token or in a threaded collective."""
        from harness.ranks.threads import torch_groups

        self.over = True
        self.release()
        self._token.disable()
        self._matcher.end()
        torch_groups.wake_all()

    def interrupt(self) -> None:
        """Raises SystemExit in the body of every live rank, at its next bytecode.

        A sub-test, or any code that catches all exceptions, takes it and goes on; then call this again.
        """
        for thread in self._alive():
            thread.interrupt()

    def interrupt_all(self) -> None:
        """Ends a test that no supervisor watches: wakes, interrupts, closes. Nothing after ``close``."""
        if not self._closed:
            self.wake()
            deadline = monotonic() + UNWATCHED_S
            while (alive := self._alive()) and monotonic() < deadline:
                self.interrupt()
                alive[0].join(INTERRUPT_EVERY_S)
            self.close()

    def close(self) -> tuple[int, ...]:
        """Uninstalls the threaded groups, restores the parent's state and joins the threads that have ended.

        Returns the ranks whose threads had to be abandoned; a second call only returns them again. An
        exception that ``interrupt`` raised does not reach a thread that waits in C (python/cpython#144748,
        python/cpython#137958).
        """
        if self._closed:
            return self.abandoned
        self._closed = True
        originals.restore()
        ended = self.over
        if not ended:
            self.wake()
        for thread in self.threads:
            if thread.rank in self._gone:
                thread.join()
        self.abandoned = tuple(t.rank for t in self._alive())
        self._installed.close()
        self._states.restore()
        if ended:
            # Exceptions and their frames form reference cycles, which keep the ranks' sockets open.
            gc.collect()
        return self.abandoned

    def _alive(self) -> list[RankThread]:
        return [t for t in self.threads if t.is_alive()]

    def check_for_stall(self, until_s: float) -> tuple[int, ...]:
        """Checks ranks that have sent no event for a while; returns those that can never go on.

        A rank that sleeps with the run token while others wait for it loses the token after two such checks.
        ``until_s`` is the test's deadline on the monotonic clock.
        """
        holder = self._token.holder
        ticks = _ticks_asleep(self.threads[holder]) if holder is not None else None
        seen = _Seen(self._token.handovers, ticks)
        if seen == self._seen and ticks is not None and self._token.pass_on():
            self._passed_on += 1
            if self._passed_on >= MOST_PASSED_ON:
                self._token.disable()
        self._seen = seen
        return self._stuck(until_s)

    def awaits_turn(self, rank: int) -> bool:
        """Whether the rank could run, as far as it is concerned, and waits until another one lets it."""
        return rank in self._token.awaiting

    def _stuck(self, until_s: float) -> tuple[int, ...]:
        if threading.active_count() > self._others + len(self._alive()):
            return ()  # a thread that the test started may still enter a collective
        awaiting = self._token.awaiting
        watched = [self._watched(thread, awaits_turn=thread.rank in awaiting) for thread in self.threads]
        stuck = self._watch.look(watched, until_s)
        # A rank that has just reported may say why the others wait.
        return stuck if self._events.empty() else ()

    def _watched(self, thread: RankThread, *, awaits_turn: bool) -> WatchedThread:
        settled = thread.rank in self._reported or not thread.is_alive()
        ticks = None if settled or awaits_turn else _ticks_asleep(thread)
        return WatchedThread(thread.rank, thread.calls, thread.native_id or 0, settled, ticks)

    # -- in a rank

    def run_rank(self, thread: RankThread) -> None:
        """Runs the rank, from its first acquisition of the run token until its groups are destroyed."""
        started = monotonic()
        self._acquire_token(thread)
        thread.stop_if_over()
        ending = thread.end_of(self._body)
        final = final_result(thread.channel.result, ending, thread.channel.texts)
        self._token.release(thread.rank)
        self._events.put(final.outcome(thread.rank, started, calls=call_log.read(thread.calls)))
        self._reported.add(thread.rank)  # after the report, for the parent's look at the queue
        thread.released.wait()
        if thread.world is not None and not self.over:
            from harness.ranks.threads import torch_groups

            torch_groups.destroy_groups(thread.world)

    def _acquire_token(self, thread: RankThread) -> None:
        thread.waits = True
        self._token.acquire(thread.rank)
        thread.waits = False

    def on_thread_end(self, thread: RankThread) -> None:
        """Releases what the rank's thread holds and reports its end."""
        self._token.release(thread.rank)
        thread.channel.result = None  # it refers to the frames of an exception, and these to sockets
        if thread.world is not None:
            from harness.ranks.threads import torch_groups

            torch_groups.drop_groups(thread.world)
            thread.world = None
        self._gone.add(thread.rank)
        self._events.put(ThreadEnded(thread.rank))

    def subtest_failed(self, rank: int, subtest: SubtestOutcome) -> None:
        """Reports a failed sub-test to the parent, unless the test is over."""
        if not self.over:
            self._events.put(SubtestFailed(rank, subtest))

    @contextlib.contextmanager
    def waiting(self, thread: RankThread, *, for_peers: bool = True) -> Iterator[None]:
        """A region in which the rank waits without the run token; it acquires the token again at the end.

        ``for_peers`` says that it waits for other ranks. RankEnded where the test is over.
        """
        if getattr(self._inside, "now", False):
            yield
            return
        thread.stop_if_over()
        self._inside.now, thread.waits = True, for_peers
        self._token.release(thread.rank)
        try:
            yield
        finally:
            self._inside.now = False
            self._acquire_token(thread)
        thread.stop_if_over()

    @contextlib.contextmanager
    def collective(
        self, thread: RankThread, operation: str, group: Any, arguments: Arguments
    ) -> Iterator[None]:
        """A region around one call of a threaded group's collective, in which the rank calls ``arrive``.

        A call that is refused for its arguments before ``arrive`` is not recorded.
        """
        inside = self._inside
        if getattr(inside, "now", False) or getattr(inside, "call", None) is not None:  # a nested call
            yield
            return
        thread.stop_if_over()
        with contextlib.ExitStack() as held:
            inside.call = call = _Call(thread, operation, group, arguments, held)
            try:
                yield
            finally:
                inside.call = None
        if call.token is not None:
            thread.log.end(call.token)
        if call.values is not None:
            thread.values.ended(call.values)

    def arrive(self) -> None:
        """Records that the calling rank's collective is about to wait, and matches it with its peers'."""
        call: _Call | None = getattr(self._inside, "call", None)
        if call is None or call.token is not None:
            return
        thread, name = call.thread, str(call.group.group_name)
        call.token = thread.recorder.began(
            call.group, call.operation, *key_and_arguments(call.operation, call.arguments)
        )
        thread.log.wait(call.token)
        if thread.values is not None:
            call.values = thread.values.began(call.token, call.operation, call.arguments)
        number, size = thread.next_number(name), call.group.size()
        self._matcher.arrive(thread.rank, name, number, call.operation, size)
        call.held.enter_context(self.waiting(thread))

    def join_group(self, thread: RankThread, group: str, members: Sequence[int]) -> None:
        """Returns when all members of a new group have called this with the same members."""
        thread.stop_if_over()
        key = f"{group} of {members}, which is being made"
        number = thread.next_number(key)
        pending = self._matcher.arrive(thread.rank, key, number, "new_group", len(members))
        self._matcher.wait(pending)
        thread.stop_if_over()


def _ticks_asleep(thread: RankThread) -> int | None:
    """The processor ticks that a sleeping thread has used; None where the thread runs or has ended.

    Where the system has no /proc, a thread counts as asleep.
    """
    try:
        with _open(f"/proc/self/task/{thread.native_id}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return None if _exists("/proc/self/task") else 0
    return int(fields[11]) + int(fields[12]) if fields[0] == b"S" else None
