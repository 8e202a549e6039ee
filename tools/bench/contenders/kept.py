"""Contenders whose ranks are kept from test to test: this harness's rank modes, and upstream's two.

They measure a case *class*: the first test, which starts the ranks, and each later one. ``HarnessFresh`` runs
the same DTensor test on fresh ranks, for comparison.
"""

from __future__ import annotations

import abc
import os
import statistics
import time
import unittest
from collections.abc import Collection

from harness.settings import EnvVar
from tools.bench.contenders.base import Contender, account
from tools.bench.kinds import CLASS_START, DTENSOR_TEST, KEPT_TEST, KINDS, Kind, MeasureError

# The number of tests whose median is one value; a single test is as short as the scheduler's noise.
NO_OPS = 100
DTENSOR_TESTS = 20
# The number of tests that run without being measured after the first.
WARM_TESTS = 5


class KeptContender(Contender):
    """A contender that measures a case class whose ranks are kept."""

    kinds: Collection[str] = (CLASS_START.name, KEPT_TEST.name, DTENSOR_TEST.name)

    @abc.abstractmethod
    def case(self, kind: Kind, world_size: int) -> type[unittest.TestCase]:
        """The case class with a test method for the kind, at this world size."""

    @abc.abstractmethod
    def stop(self, case: type[unittest.TestCase]) -> None:
        """Ends the ranks that are kept for a class."""

    def warm(self) -> None:
        """Runs one test without measuring, which imports what a test needs."""
        kind = KINDS[next(iter(self.kinds))]
        timed(self.case(kind, kind.sizes[0]), kind.method)
        self.stop(self.case(kind, kind.sizes[0]))

    def measure(self, kind: Kind, world_size: int) -> float:
        """Seconds of a class's first test, or the median of its later ones; ends the class's ranks after."""
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
    """Runs one test and returns its seconds; raises MeasureError if it did not pass."""
    result = unittest.TestResult()
    started = time.monotonic()
    case(method).run(result)
    ended = time.monotonic()
    if not result.wasSuccessful() or result.skipped:
        raise MeasureError(f"the test did not pass\n{account(result)}")
    return ended - started


class HarnessKept(KeptContender):
    """The base of this harness's contenders, one for each rank mode."""

    mode: str

    def __init__(self) -> None:
        os.environ[EnvVar.RANKS] = self.mode

    def case(self, kind: Kind, world_size: int) -> type[unittest.TestCase]:
        """The case class in ``tools.bench.cases`` for the kind, world size and rank mode."""
        from tools.bench import cases

        return cases.ours(kind, world_size, self.mode)

    def stop(self, case: type[unittest.TestCase]) -> None:
        """Ends pooled ranks; in the other modes ranks end with their test."""
        from harness.ranks.processes.pool import retire_pool

        retire_pool()


class HarnessPooled(HarnessKept):
    """Pooled ranks: processes that are kept together with their process group."""

    mode = "pooled"


class HarnessThreads(HarnessKept):
    """Ranks that are threads of the test's own process."""

    mode = "threads"


class HarnessLocal(HarnessKept):
    """One process that simulates all ranks of a DTensor test with local tensors."""

    mode = "local"
    kinds = (DTENSOR_TEST.name,)


class HarnessFresh(HarnessKept):
    """Fresh ranks for each DTensor test, for comparison with kept ones."""

    mode = "fresh"
    kinds = (DTENSOR_TEST.name,)


class UpstreamPooled(KeptContender):
    """Upstream's ``MultiProcContinuousTest``: processes that are kept for a class."""

    kinds = (CLASS_START.name, KEPT_TEST.name)

    def case(self, kind: Kind, world_size: int) -> type[unittest.TestCase]:
        """The no-op case in ``tools.bench.upstream_cases`` at this world size."""
        from tools.bench import upstream_cases

        return upstream_cases.CONTINUOUS[world_size]

    def stop(self, case: type[unittest.TestCase]) -> None:
        """Runs upstream's ``tearDownClass`` and resets the flag that would keep ranks from starting again."""
        case.tearDownClass()
        case._processes_spawned = False  # type: ignore[attr-defined]  # the flag that upstream's setUp looks at


class UpstreamThreads(KeptContender):
    """Upstream's ``MultiThreadedTestCase``: ranks that are threads."""

    kinds = (CLASS_START.name, KEPT_TEST.name)

    def case(self, kind: Kind, world_size: int) -> type[unittest.TestCase]:
        """The no-op case in ``tools.bench.upstream_cases`` at this world size."""
        from tools.bench import upstream_cases

        return upstream_cases.THREADED[world_size]

    def stop(self, case: type[unittest.TestCase]) -> None:
        """Does nothing, because the threads ended with their test."""
