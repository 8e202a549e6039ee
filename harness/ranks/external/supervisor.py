"""The supervisor of external ranks: a listener thread per rank reads outcomes and can stop its own test.

    read outcomes, until the deadline or a grace after the first failure or skip --all ranks have one--> done
      |  a rank has none yet: give up
      v
    stop the own rank --CLOSE_S--> release groups --UNWIND_S--> end the own process
      --DECLARE_LOST_S--> declare the silent ranks lost

Where the launcher ends the job, it gives up at once, and the steps take a part of a second together.

All listeners read the same outcomes in the same order, and only a rank's first outcome counts; so it matters
neither which listener declares a rank lost, nor that listeners start to wait at different times.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from harness.communication.taps import taps
from harness.outcomes import RankOutcome, Status
from harness.rank_merging import DEFAULT_RULES, MergeRules, apply_rules
from harness.ranks.deadlines import Action, EndReason, Limits, SupervisorView, decide, why_deadlocked
from harness.ranks.exit_rules import ended_as
from harness.ranks.external.deadlock_watch import LOOK_EVERY_S
from harness.ranks.external.outcome_log import LoggedOutcome, OutcomeLog
from harness.ranks.external.rank import InProcessRank
from harness.ranks.job import JobResult

# Seconds for which ranks that are done keep their process groups after the silent ranks were given up. When
# they close them, a silent rank's wait fails; by then its own listener has stored its status and its stack.
# All listeners give up at about the same time: the difference is the time for an outcome to reach them all.
CLOSE_S = 0.3
# Seconds for a test that is stopped to unwind, its cleanups included.
UNWIND_S = 1.0
# Seconds until silent ranks are declared lost: a rank that ends its own process appends its outcome before.
# One that has not begun the test yet, on a busy machine say, is silent too, and nothing can replace it for
# the tests that follow. So the wait is long; only where a process was killed does a verdict come that late.
DECLARE_LOST_S = 10.0
LADDER = (CLOSE_S, UNWIND_S, DECLARE_LOST_S)
# The same where the launcher has sent SIGTERM: mpirun sends SIGKILL a second later.
LAST_LADDER = (0.0, 0.3, 0.5)
assert sorted(LADDER) == list(LADDER) and sorted(LAST_LADDER) == list(LAST_LADDER)


class ExternalSupervisor(threading.Thread):
    """Reads the outcomes of one test's ranks, from ``start`` until each rank has one.

    ``rank`` is this process's; ``own`` is None where the test does not need it. ``end_process`` is called
    with this listener where the own test, or its process groups, can be ended in no other way. ``over`` is
    set when the launcher ends the job. ``released`` is set when no rank needs the own rank's groups any more;
    the thread that runs the test sets ``cleaned`` when they are destroyed. ``failure`` is the error that
    ended the listening, if there was one.
    """

    def __init__(
        self,
        log: OutcomeLog,
        rank: int,
        world_size: int,
        limits: Limits,
        own: InProcessRank | None,
        end_process: Callable[[ExternalSupervisor], object],
        rules: MergeRules = DEFAULT_RULES,
        over: threading.Event | None = None,
        had_turn: Callable[[float], object] = lambda seconds: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name="harness: listens to the ranks", daemon=True)
        self.released = threading.Event()
        self.cleaned = threading.Event()
        self.failure: Exception | None = None
        self.lost: tuple[int, ...] = ()
        self._log = log
        self._limits = limits
        self._own = own
        self._end_process = end_process
        self._rules = rules
        self._clock = clock
        self._over = over or threading.Event()
        self._had_turn = had_turn
        self._ladder = LADDER
        self._silent = set(range(world_size))
        self._words: list[RankOutcome] = []
        self._read = 0
        self._view = SupervisorView(clock(), unsettled=world_size, alive=world_size)
        self._why: EndReason | None = None
        self._gave_up = 0.0
        self._stuck = False
        self._rank = rank
        self._watch = log.watch(rank, self._view.started + limits.timeout_s)
        self._look_at = self._view.started + LOOK_EVERY_S
        self._deadlocked: tuple[int, ...] = ()

    @property
    def watch(self) -> JobResult:
        """The outcomes that are known so far: those of all ranks in the end, unless there was a failure."""
        return JobResult(tuple(sorted(self._words, key=lambda o: o.rank)), ())

    def run(self) -> None:
        """Reads outcomes until every rank has one, then ends the own rank if it still runs."""
        taps.leave_this_thread_out()
        try:
            while self._silent:
                self._step()
        except Exception as error:  # noqa: BLE001 - torch's own for a store that is gone, ProtocolError, ...
            self.failure = error
        if self._own is not None:
            self._see_off(self._own)
        self.released.set()

    def _step(self) -> None:
        """Reads one outcome, or does what is due when there is none in time."""
        now = self._clock()
        if self._over.is_set() and self._ladder is not LAST_LADDER:
            self._ladder = LAST_LADDER
            self._give_up(EndReason.INTERRUPT)
            return
        if self._why is None:
            step = decide(self._view, self._limits, now)
            if step.action is not Action.WAIT:
                assert step.why is not None
                self._give_up(step.why)
                return
            until = step.until
        else:
            until = self._due(now)
        wake = self._over if self._ladder is LADDER else None
        word = self._log.read(self._read, min(until, self._look_at) - now, wake)
        if word is not None:
            self._read += 1
            self._note(word)
        if self._clock() >= self._look_at:
            self._look_at = self._clock() + LOOK_EVERY_S
            self._look_for_deadlocks()

    def _look_for_deadlocks(self) -> None:
        """Tells whether the own rank waits, and hears whether ranks can never go on."""
        if self._why is not None or self._view.deadlocked is not None:
            return
        if self._own is not None and self._own.rank in self._silent:
            self._watch.tell(*self._own.log())
        if self._rank == 0:
            alone = why_deadlocked(self._view) is EndReason.DEADLOCK
            self._watch.judge(self._silent, {o.rank: o.calls for o in self._words}, all_of_them=not alone)
        self._deadlocked = self._watch.deadlocked(len(self._words))
        if self._deadlocked:
            self._view = replace(self._view, deadlocked=self._clock())

    def _note(self, word: LoggedOutcome) -> None:
        outcome = word.outcome
        if outcome.rank not in self._silent:
            return  # a second outcome of the rank, which all processes ignore
        now = self._clock()
        self._silent.discard(outcome.rank)
        self._words.append(replace(outcome, order=len(self._words), at_s=now))
        if word.lost:
            self.lost += (outcome.rank,)
        if apply_rules(self._rules, outcome).bad:
            self._view = replace(self._view, first_bad=self._view.first_bad or now)
        elif outcome.status is Status.SKIPPED:
            self._view = replace(self._view, first_skip=self._view.first_skip or now)

    # -- ranks without an outcome

    def _give_up(self, why: EndReason) -> None:
        self._why, self._gave_up = why, self._clock()
        if self._own is not None and not self._own.done.is_set():
            self._had_turn(self._ladder[-1] + self._limits.exit_grace_s)
        if self._own is not None and self._own.rank in self._silent:
            stuck = why is EndReason.DEADLOCK and self._own.rank in self._deadlocked
            self._own.stop(Status.DEADLOCKED if stuck else ended_as(why) or Status.ENDED)

    def _due(self, now: float) -> float:
        """Does what is due since silent ranks were given up; returns when the next thing is due."""
        close, unwind, last = (self._gave_up + after for after in self._ladder)
        if now >= close:
            self.released.set()
        if now >= unwind and not self._stuck and self._own is not None and not self._own.done.is_set():
            self._stuck = True
            self._log.append(self._own.stuck(), lost=True)
        if now >= last:
            self._declare_lost()
        return next((when for when in (close, unwind) if now < when), last)

    def _declare_lost(self) -> None:
        assert self._why is not None
        when = {
            EndReason.TIMEOUT: "by the deadline",
            EndReason.FAILURE: "after another rank had failed",
            EndReason.INTERRUPT: "when the launcher ended the job (SIGTERM)",
        }
        for rank in sorted(self._silent):
            note = f"no word from it {when.get(self._why, 'after another rank had skipped')}"
            self._log.append(
                RankOutcome(rank, Status.CRASHED, note=f"{note}; {self._log.last_test_of(rank)}"), lost=True
            )

    def _see_off(self, own: InProcessRank) -> None:
        """Waits until the own test is over, and ends it if it is not.

        It is over already unless the store failed or other ranks declared this one lost. It gets the grace
        that follows a failure, and is then stopped.
        """
        over = self._ladder is LAST_LADDER
        if not self._stuck and not own.done.wait(0 if over else _bounded(self._limits.grace_s)):
            own.stop(Status.ENDED)
            self._stuck = not own.done.wait(UNWIND_S)
        self.released.set()
        exit_grace_s = UNWIND_S if over else _bounded(self._limits.exit_grace_s)
        if self._stuck or not self.cleaned.wait(exit_grace_s):
            self._end_process(self)


def _bounded(seconds: float) -> float | None:
    """A timeout for ``threading``: None for infinity."""
    return None if math.isinf(seconds) else seconds
