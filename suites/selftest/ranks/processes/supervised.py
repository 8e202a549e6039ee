"""``SupervisorCase``: a supervisor with played ranks, for the tests of what it does with them."""

from __future__ import annotations

import itertools
import mmap
import time
import unittest
from collections.abc import Callable
from typing import Any

from harness.communication import call_log
from harness.communication_call import Signature
from harness.outcomes import ErrorInfo, Status, SubtestOutcome
from harness.ranks.deadlines import Limits
from harness.ranks.job import JobResult
from harness.ranks.processes.output import Output
from harness.ranks.processes.supervisor import Supervisor
from suites.selftest.ranks.processes.played import Played

# Seconds. Played ranks act at once, so that these only end what is meant to hang.
SHORT = Limits(timeout_s=0.05, grace_s=0.05, skip_grace_s=0.05, exit_grace_s=0.05)
FAILURE = ErrorInfo("AssertionError", "no", "trace", is_assertion=True)
SUBTEST = SubtestOutcome(None, (("n", "1"),), Status.FAILED, FAILURE)

# Seconds on a clock that jumps: many looks after the start, and long after a grace of one second.
LATE = 20

# Calls of the clock until the supervisor has looked at its descriptors for the first time, and some more.
FIRST_LOOK = 6


def patient_clock() -> Callable[[], float]:
    """Returns a monotonic clock that stands still until what ranks did beforehand has been seen.

    However long this process waits for a processor, nothing that the ranks did comes too late.
    """
    start, calls = time.monotonic(), itertools.count()
    return lambda: start if next(calls) < FIRST_LOOK else time.monotonic()


def interrupted_clock(calls: tuple[int, ...]) -> Callable[[], float]:
    """Returns a clock during whose calls of these numbers, counted from 1, Ctrl-C comes."""
    numbers = itertools.count(1)

    def clock() -> float:
        if next(numbers) in calls:
            raise KeyboardInterrupt
        return time.monotonic()

    return clock


class SupervisorCase(unittest.TestCase):
    """Supervises two played ranks; rank 0 is well-behaved unless a test says otherwise."""

    def setUp(self) -> None:
        self.ranks = Played(2)
        self.addCleanup(self.ranks.close)

    def watch(
        self, limits: Limits = SHORT, clock: Callable[[], float] | None = None, **more: Any
    ) -> JobResult:
        """Supervises the ranks to their end."""
        clock = clock or patient_clock()
        outputs = [Output() for rank in range(2)]
        ranks: Any = self.ranks  # stands in for a RankSet
        return Supervisor(ranks, outputs, limits, clock(), clock=clock, **more).run()

    def jumping_clock(self, late: Callable[[], object]) -> Callable[[], float]:
        """Returns a clock that advances a second with each look, at which there is always output to see.

        ``late`` is called once ``LATE`` seconds have passed.
        """
        ticks = itertools.count()

        def clock() -> float:
            self.ranks.prints(0, b".")
            if (now := next(ticks)) == LATE:
                late()
            return float(now)

        return clock

    def leaves_when_released(self, rank: int, code: int = 0) -> None:
        """Lets the rank end as soon as it is released."""
        self.ranks.on[rank, "release"] = lambda: self.ranks.exits(rank, code)

    def dies_of(self, rank: int, signum: int) -> None:
        """Lets the rank end by that signal."""
        self.ranks.on[rank, int(signum)] = lambda: self.ranks.exits(rank, -int(signum))

    def statuses(self, watched: JobResult) -> list[Status]:
        """Returns the statuses by rank."""
        return [o.status for o in watched.outcomes]

    def calls(self, rank: int, signature: Signature) -> None:
        """Has a rank wait in a call."""
        log = self.log(rank)
        log.begin(log.text(signature), 0, 1, waits=True)

    def log(self, rank: int) -> call_log.CallLog:
        """A rank's log, to write into it as the rank does."""
        return call_log.CallLog(mmap.mmap(self.ranks.links[rank].log, call_log.LOG_BYTES))
