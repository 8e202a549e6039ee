"""Ranks that outlive a test, of both harnesses: what a class costs to start, and each test after that.

Contenders whose measurements are of a *class*: they know no fresh ranks, and none of the other kinds.
"""

from __future__ import annotations

import abc
import os
import statistics
import time
import unittest
from collections.abc import Collection

from tools.bench.contenders.base import Contender, account
from tools.bench.kinds import CLASS_START, DTENSOR_TEST, KEPT_TEST, KINDS, Kind, MeasureError

# Tests behind one value: their median, for a single one takes no longer than the scheduler's mood.
NO_OPS = 100
DTENSOR_TESTS = 20
# The start of a class and a few tests are paid by what came before it.
WARM_TESTS = 5


class KeptContender(Contender):
    """Measures a case class whose ranks are kept."""

    kinds: Collection[str] = (CLASS_START.name, KEPT_TEST.name, DTENSOR_TEST.name)

    @abc.abstractmethod
    def case(self, kind: Kind, world_size: int) -> type[unittest.TestCase]:
        """The class with a method for the kind, on so many ranks."""

    @abc.abstractmethod
    def stop(self, case: type[unittest.TestCase]) -> None:
        """Ends what is kept for a class."""

    def warm(self) -> None:
        """Imports, by one test."""
        kind = KINDS[next(iter(self.kinds))]
        timed(self.case(kind, kind.sizes[0]), kind.method)
        self.stop(self.case(kind, kind.sizes[0]))

    def measure(self, kind: Kind, world_size: int) -> float:
        """Seconds of a class's first test, or the median of its later ones; the class is ended after that."""
        case = self.case(kind, world_size)
        try:
            first = timed(case, kind.method)
            if kind is CLASS_START:
                return first
            for _ in range(WARM_TESTS):
                timed(case, kind.method)
            count = NO_OPS if kind is KEPT_TEST else DTENSOR_TESTS
            return statistics.median(timed(case, kind.method) for _ in range(count))
        finally:
            self.stop(case)


def timed(case: type[unittest.TestCase], method: str) -> float:
    """Seconds of one test; MeasureError where it did not pass."""
    result = unittest.TestResult()
    started = time.monotonic()
    case(method).run(result)
    ended = time.monotonic()
    if not result.wasSuccessful() or result.skipped:
        raise MeasureError(f"the test did not pass\n{account(result)}")
    return ended - started


class HarnessKept(KeptContender):
    """This project's, by the rank mode."""

    mode: str

    def __init__(self) -> None:
        os.environ["HARNESS_RANKS"] = self.mode

    def case(self, kind: Kind, world_size: int) -> type[unittest.TestCase]:
        """A class of ``cases``."""
        from tools.bench import cases

        return cases.ours(kind, world_size, self.mode)

    def stop(self, case: type[unittest.TestCase]) -> None:
        """Ends pooled ranks; threads and fresh ranks end with their test."""
        from harness.cases.modes import retire_pool

        retire_pool()


class HarnessPooled(HarnessKept):
    """Processes and their process group, kept for all classes that ask for the same."""

    mode = "pooled"


class HarnessThreads(HarnessKept):
    """Threads of the test's own process."""

    mode = "threads"


class HarnessLocal(HarnessKept):
    """One process that plays all ranks of a DTensor test."""

    mode = "local"
    kinds = (DTENSOR_TEST.name,)


class HarnessFresh(HarnessKept):
    """Fresh ranks for each test, for comparison."""

    mode = "fresh"
    kinds = (DTENSOR_TEST.name,)


class UpstreamPooled(KeptContender):
    """Upstream's ``MultiProcContinuousTest``."""

    kinds = (CLASS_START.name, KEPT_TEST.name)

    def case(self, kind: Kind, world_size: int) -> type[unittest.TestCase]:
        """A class of ``upstream_cases``."""
        from tools.bench import upstream_cases

        return upstream_cases.CONTINUOUS[world_size]

    def stop(self, case: type[unittest.TestCase]) -> None:
        """Upstream's end of a class, and the state that lets it start again."""
        case.tearDownClass()
        case._processes_spawned = False  # type: ignore[attr-defined]  # the flag that upstream's setUp looks at


class UpstreamThreads(KeptContender):
    """Upstream's ``MultiThreadedTestCase``."""

    kinds = (CLASS_START.name, KEPT_TEST.name)

    def case(self, kind: Kind, world_size: int) -> type[unittest.TestCase]:
        """A class of ``upstream_cases``."""
        from tools.bench import upstream_cases

        return upstream_cases.THREADED[world_size]

    def stop(self, case: type[unittest.TestCase]) -> None:
        """Its threads ended with their test."""
