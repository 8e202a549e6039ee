"""The supervisor of a test whose ranks are processes that somebody else started: a listener in each of them.

    wait for words, until the deadline or a grace after the first failure or skip --all ranks said one--> done
      |  a rank is silent still: give up
      v
    stop the own rank --CLOSE_S--> let go of groups --UNWIND_S--> end the own process --LAST_WORD_S--> declare
                                                                                     the silent ranks lost

All listeners read the same words in the same order, and only the first about a rank counts; so it does not
matter who declares a rank lost, nor that they begin to wait at different times.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from harness.outcomes import PLAIN, MergeRules, RankOutcome, Status, as_announced
from harness.ranks.deadlines import Action, Limits, View, Why, decide
from harness.ranks.exit_rules import ended_as
from harness.ranks.external.rank import InProcessRank
from harness.ranks.external.rank_set import LoggedOutcome, OutcomeLog
from harness.ranks.job import JobResult

# Seconds that ranks which are done keep their groups once the others are given up, so that a rank whose wait
# ends with a connection has noted before that it was ended, and where. They began to wait at the same time,
# but for the time that a verdict takes to come to all of them.
CLOSE_S = 0.3
# Seconds for a test that is stopped to unwind, its cleanups included.
UNWIND_S = 1.0
# Seconds until silent ranks are declared lost: those that end themselves must come first with their word.
LAST_WORD_S = 2.0
assert CLOSE_S < UNWIND_S < LAST_WORD_S


class ExternalSupervisor(threading.Thread):
    """Listens to one test's ranks, from ``start`` until each has its word. ``own`` is None in a process whose
    rank the test does not need; ``end_process`` is called with this listener where the own test, or its
    process groups, can be ended in no other way.

    ``released`` is set when nobody needs the own rank's groups any more; whoever runs the test sets
    ``cleaned`` when they are gone. ``failure`` is what came in the way of the words, if anything did.
    """

    def __init__(
        self,
        log: OutcomeLog,
        world_size: int,
        limits: Limits,
        own: InProcessRank | None,
        end_process: Callable[[ExternalSupervisor], object],
        rules: MergeRules = PLAIN,
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
        self._silent = set(range(world_size))
        self._words: list[RankOutcome] = []
        self._read = 0
        self._view = View(clock(), unsettled=world_size, alive=world_size)
        self._why: Why | None = None
        self._gave_up = 0.0
        self._stuck = False

    @property
    def watch(self) -> JobResult:
        """What came of the ranks, as far as it is known: of all in the end, unless there was a failure."""
        return JobResult(tuple(sorted(self._words, key=lambda o: o.rank)), ())

    def run(self) -> None:
        """The listener's life."""
        try:
            while self._silent:
                self._step()
        except Exception as error:  # noqa: BLE001 - torch's own for a store that is gone, ProtocolError, ...
            self.failure = error
        if self._own is not None:
            self._see_off(self._own)
        self.released.set()

    def _step(self) -> None:
        """Hears one word, or does what is due without it."""
        now = self._clock()
        if self._why is None:
            step = decide(self._view, self._limits, now)
            if step.action is not Action.WAIT:
                assert step.why is not None
                self._give_up(step.why)
                return
            until = step.until
        else:
            until = self._due(now)
        soon = self._why is not None or self._view.first_bad is not None or self._view.first_skip is not None
        word = self._log.read(self._read, until - now, soon=soon)
        if word is not None:
            self._read += 1
            self._note(word)

    def _note(self, word: LoggedOutcome) -> None:
        outcome = word.outcome
        if outcome.rank not in self._silent:
            return  # too late: for all, and so it is for us
        now = self._clock()
        self._silent.discard(outcome.rank)
        self._words.append(replace(outcome, order=len(self._words), at_s=now))
        if word.lost:
            self.lost += (outcome.rank,)
        if as_announced(self._rules, outcome).bad:
            self._view = replace(self._view, first_bad=self._view.first_bad or now)
        elif outcome.status is Status.SKIPPED:
            self._view = replace(self._view, first_skip=self._view.first_skip or now)

    # -- what is silent

    def _give_up(self, why: Why) -> None:
        self._why, self._gave_up = why, self._clock()
        if self._own is not None and self._own.rank in self._silent:
            self._own.stop(ended_as(why) or Status.ENDED)

    def _due(self, now: float) -> float:
        """Does what is due since silent ranks were given up; until when to listen for them now."""
        close, unwind, last = (self._gave_up + after for after in (CLOSE_S, UNWIND_S, LAST_WORD_S))
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
        when = {Why.TIMEOUT: "by the deadline", Why.FAILURE: "after another rank had failed"}
        for rank in sorted(self._silent):
            note = f"no word from it {when.get(self._why, 'after another rank had skipped')}"
            self._log.append(
                RankOutcome(rank, Status.CRASHED, note=f"{note}; {self._log.whereabouts(rank)}"), lost=True
            )

    def _see_off(self, own: InProcessRank) -> None:
        """Nobody waits for the own test any more: normally it is over. If it is not (there are no words to be
        had, or the others have declared it lost) it has the grace that follows a failure."""
        if not self._stuck and not own.done.wait(_bounded(self._limits.grace_s)):
            own.stop(Status.ENDED)
            self._stuck = not own.done.wait(UNWIND_S)
        self.released.set()
        if self._stuck or not self.cleaned.wait(_bounded(self._limits.exit_grace_s)):
            self._end_process(self)


def _bounded(seconds: float) -> float | None:
    """None for no limit, as locks have it."""
    return None if math.isinf(seconds) else seconds
