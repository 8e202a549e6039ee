"""The supervisor of rank threads: watches one test's threads, wakes or interrupts them, makes their outcomes.

It shares ``deadlines.decide`` with the supervisor of processes. Instead of signals it reads a thread's
frames, wakes one that waits in a threaded collective, and interrupts one that runs Python until it ends. A
thread that waits anywhere else, or takes every interruption, is abandoned, and its outcome says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.communication import call_log
from harness.communication_call import Call
from harness.outcomes import RankOutcome, Status, SubtestOutcome
from harness.protocol import SubtestFailed
from harness.rank_merging import DEFAULT_RULES, MergeRules
from harness.ranks.deadlines import (
    TERM_WAIT_S,
    Action,
    EndReason,
    Limits,
    NextStep,
    SupervisorView,
    decide,
    why_deadlocked,
)
from harness.ranks.exit_rules import ended_as, hung_at_exit
from harness.ranks.job import JobResult
from harness.ranks.threads.rank import ThreadEnded
from harness.ranks.threads.rank_set import INTERRUPT_EVERY_S, RankThreads
from harness.settings import TIMEOUT_S, Settings

# Seconds without an event after which the ranks are checked for one that sleeps with the run token, and for a
# deadlock. No event reports that a thread falls asleep, so polling is the only way; it costs microseconds.
LOOK_EVERY_S = 0.1
# Seconds for woken ranks to return from their collectives, before all ranks are interrupted wherever they
# are, again and again until they end. A fraction of the time that they have to end.
WAKE_WAIT_S = 0.05
assert INTERRUPT_EVERY_S < WAKE_WAIT_S < TERM_WAIT_S
# How often a rank is interrupted before it is abandoned: each of its sub-tests may take one. Where the
# machine is so busy that there was no time for that many, the rank gets the time.
LEAST_INTERRUPTIONS = 20
assert WAKE_WAIT_S + LEAST_INTERRUPTIONS * INTERRUPT_EVERY_S < TERM_WAIT_S

ABANDONED = "abandoned: it waits where no thread can be ended, or takes every interruption and goes on"


class ThreadSupervisor:
    """Supervises the rank threads of one test. ``run`` is called once."""

    def __init__(
        self,
        ranks: RankThreads,
        limits: Limits,
        started: float,
        rules: MergeRules = DEFAULT_RULES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ranks = ranks
        self._limits = limits
        self._rules = rules
        self._clock = clock
        self._size = len(ranks.threads)
        self._reports: dict[int, RankOutcome] = {}
        self._failed: dict[int, list[SubtestOutcome]] = {}  # sub-tests by rank
        self._order: dict[int, int] = {}  # rank -> its place in the order of first failures and reports
        self._gone: set[int] = set()
        self._ended: dict[int, EndReason] = {}
        self._stacks: dict[int, str] = {}
        self._calls: dict[int, Sequence[Call]] = {}  # of ranks that had to be ended, until then
        self._waiting: set[int] = set()
        self._await_turn: set[int] = set()
        self._deadlocked: tuple[int, ...] = ()
        self._interrupt_at = math.inf
        self._interruptions = 0
        self._view = SupervisorView(started, unsettled=self._size, alive=self._size)

    def run(self) -> JobResult:
        """Watches until every rank has ended or is abandoned, and uninstalls the threaded groups."""
        try:
            while (step := self._decide()).action not in (Action.DONE, Action.KILL):
                self._act(step)
                self._see(step)
        except BaseException:
            self._ranks.interrupt_all()
            raise
        abandoned = self._ranks.close()
        return JobResult(tuple(self._outcome(rank, rank in abandoned) for rank in range(self._size)), ())

    # -- deciding

    def _decide(self) -> NextStep:
        now = self._clock()
        self._view = replace(
            self._view,
            unsettled=self._size - len(self._reports.keys() | self._gone),
            alive=self._size - len(self._gone),
        )
        step = decide(self._view, self._limits, now)
        too_soon = step.action is Action.KILL and self._interruptions < LEAST_INTERRUPTIONS
        return NextStep(Action.WAIT) if too_soon else step

    def _see(self, step: NextStep) -> None:
        """Waits for the next event; checks the ranks where there is none for a while."""
        event = self._ranks.next_event(self._wait_s(step))
        if event is not None:
            self._take(event)
        elif self._view.stacks_since is None and (working := self._working()):
            self._look_for_deadlocks(working)

    def _look_for_deadlocks(self, working: Sequence[int]) -> None:
        """Has the ranks ended where some can never go on; after a failure or a skip, where none can."""
        until = self._view.started + self._limits.timeout_s
        if math.isinf(until):  # of a run without a deadline, a call that gives up soon is no deadlock either
            until = self._clock() + TIMEOUT_S
        self._deadlocked = self._ranks.check_for_stall(until)
        why = why_deadlocked(self._view)
        if self._deadlocked and (why is EndReason.DEADLOCK or len(self._deadlocked) == len(working)):
            self._look(why)

    def _wait_s(self, step: NextStep) -> float | None:
        if step.action is not Action.WAIT:
            return 0.0
        until = step.until
        until = min(until, self._interrupt_at)
        left = math.inf if math.isinf(until) else max(0.0, until - self._clock())
        return min(left, LOOK_EVERY_S)

    def _working(self) -> list[int]:
        return [r for r in range(self._size) if r not in self._reports and r not in self._gone]

    def _take(self, event: SubtestFailed | RankOutcome | ThreadEnded) -> None:
        now = self._clock()
        if isinstance(event, SubtestFailed):
            self._failed.setdefault(event.rank, []).append(event.subtest)
            self._place(event.rank)
            return
        if isinstance(event, ThreadEnded):
            self._gone.add(event.rank)
            return
        if event.rank in self._ended:
            return  # the supervisor is ending this rank, so a report now is a consequence of that
        self._reports[event.rank] = replace(event, order=self._place(event.rank), at_s=now)
        if self._is_bad(event):
            self._view = replace(self._view, first_bad=self._view.first_bad or now)
        elif event.status is Status.SKIPPED:
            self._view = replace(self._view, first_skip=self._view.first_skip or now)

    def _place(self, rank: int) -> int:
        return self._order.setdefault(rank, len(self._order))

    def _is_bad(self, report: RankOutcome) -> bool:
        if report.status is not Status.CRASHED:
            return report.bad
        announced = self._rules.expected_exit is not None and report.exit_code == self._rules.expected_exit
        return not (self._rules.any_exit or announced)

    # -- acting

    def _act(self, step: NextStep) -> None:
        now = self._clock()
        if step.action is Action.RELEASE:
            self._ranks.release()
            self._view = replace(self._view, released=now)
        elif step.action is Action.TAKE_STACKS:
            assert step.why is not None
            self._look(step.why)
        elif step.action is Action.END:
            self._ranks.wake()
            self._view = replace(self._view, ended=now)
            self._interrupt_at = now + WAKE_WAIT_S
        elif now >= self._interrupt_at:
            self._ranks.interrupt()
            self._interruptions += 1
            self._interrupt_at = now + INTERRUPT_EVERY_S

    def _look(self, why: EndReason) -> None:
        """Marks the ranks that have to be ended and stores their stacks."""
        for rank in range(self._size):
            if rank not in self._gone and (why is EndReason.EXIT or rank not in self._reports):
                self._ended[rank] = why
                self._stacks[rank] = self._ranks.threads[rank].stack()
                self._calls[rank] = call_log.read(self._ranks.threads[rank].calls)
                if self._ranks.threads[rank].waits:
                    self._waiting.add(rank)
                if self._ranks.awaits_turn(rank):
                    self._await_turn.add(rank)
        self._view = replace(self._view, stacks_since=self._clock(), stacks_taken=True)

    # -- concluding

    def _outcome(self, rank: int, abandoned: bool) -> RankOutcome:
        why = self._ended.get(rank)
        report = self._reports.get(rank) or self._missing(rank)
        if why is not None:
            report = replace(report, note=ABANDONED if abandoned else "")
        if why is EndReason.EXIT:
            report = hung_at_exit(report)
        calls = self._calls.get(rank)  # none is what a rank without calls had
        if calls is None:
            calls = call_log.read(self._ranks.threads[rank].calls)
        return replace(report, stack=self._stacks.get(rank, ""), calls=calls)

    def _status(self, rank: int) -> Status:
        """How a rank without a report ended."""
        why = self._ended.get(rank)
        if why is EndReason.DEADLOCK and rank in self._deadlocked:
            return Status.DEADLOCKED
        return ended_as(why) or Status.CRASHED

    def _missing(self, rank: int) -> RankOutcome:
        """The outcome of a rank that has not reported.

        Among several that timed out, one that did not wait for another rank is to blame, so it is ordered
        first.
        """
        now, started = self._clock(), self._view.started
        late = rank + self._size * (2 if rank in self._waiting else 1)
        return RankOutcome(
            rank,
            self._status(rank),
            subtests=tuple(self._failed.get(rank, ())),
            order=self._order.get(rank, late),
            at_s=now,
            started_s=started,
            duration_s=now - started,
            phase="turn" if rank in self._await_turn else "test",
        )


def supervise_threads(
    ranks: RankThreads,
    settings: Settings,
    *,
    started: float,
    timeout_s: float,
    rules: MergeRules = DEFAULT_RULES,
) -> JobResult:
    """Supervises started ranks until they end. Durations in seconds; ``started`` on the monotonic clock."""
    ranks.settle()
    limits = Limits.of(settings, timeout_s, ranks.world_size, no_grace_in_debugger=True)
    return ThreadSupervisor(ranks, limits, started, rules).run()
