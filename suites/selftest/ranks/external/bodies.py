"""Tests that ``test_external`` runs on ranks that it starts itself, and the program of such a rank.

``main`` runs tests of this module, as unittest does, and writes what became of each to a file.
"""

from __future__ import annotations

import json
import os
import sys
import time
import unittest
import warnings
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from harness import (
    DistributedTestBase,
    MultiProcContinuousTest,
    MultiThreadedTestCase,
    RankLeakWarning,
    timeout,
)

# Seconds. The deadline of tests that wait for it.
SHORT_S = 1.5


class Three(DistributedTestBase):
    """Three ranks."""

    world_size = 3

    def total(self) -> float:
        """The sum of all ranks' numbers from 1, by all_reduce."""
        self.create_pg("cpu")
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        return float(tensor)

    def test_sum(self) -> None:
        """Passes."""
        self.assertEqual(self.total(), 6.0)

    def test_fails_on_1(self) -> None:
        """Rank 1 fails; the others wait for it, in C."""
        self.create_pg("cpu")
        self.assertNotEqual(self.rank, 1)
        dist.barrier()

    def test_raises_on_2(self) -> None:
        """Rank 2 raises; the others pass."""
        if self.rank == 2:
            raise RuntimeError("as planned")

    def test_skips(self) -> None:
        """All ranks skip."""
        self.skipTest("for all of us")

    def test_skips_on_2(self) -> None:
        """Rank 2 skips alone."""
        if self.rank == 2:
            self.skipTest("for me")

    def test_subtests(self) -> None:
        """One of two sub-tests fails on one of the ranks."""
        for number in range(2):
            with self.subTest(number=number):
                self.assertFalse(number == 1 and self.rank == 1)

    def test_exits_on_1(self) -> None:
        """Rank 1 asks for its process to end."""
        if self.rank == 1:
            sys.exit(7)

    @timeout(SHORT_S)
    def test_sleeps_on_1(self) -> None:
        """Rank 1 is late, in Python; the others are done."""
        if self.rank == 1:
            time.sleep(3600)

    def test_leaves_dtype_on_0(self) -> None:
        """Rank 0 leaves something behind."""
        if self.rank == 0:
            torch.set_default_dtype(torch.float64)

    def test_dtype(self) -> None:
        """Puts right what the test above left; ranks are not replaced."""
        self.assertEqual(torch.get_default_dtype() is torch.float64, self.rank == 0)
        torch.set_default_dtype(torch.float32)

    @unittest.expectedFailure
    def test_expected(self) -> None:
        """Fails on all ranks, as it should."""
        self.fail("as expected")

    def test_dies_on_2(self) -> None:
        """Rank 2 dies; the others wait for it, in C."""
        self.create_pg("cpu")
        if self.rank == 2:
            os._exit(3)
        dist.barrier()


class SetUp(DistributedTestBase):
    """One process never comes to its rank."""

    world_size = 3

    def setUp(self) -> None:
        """Skips in one process."""
        if os.environ["RANK"] == "1":
            self.skipTest("not in this process")
        super().setUp()

    def test_passes(self) -> None:
        """On the others."""


class Two(DistributedTestBase):
    """Fewer ranks than there are processes."""

    world_size = 2

    def test_sum(self) -> None:
        """Passes, on ranks 0 and 1."""
        self.assertEqual(os.environ["WORLD_SIZE"], "2")
        self.create_pg("cpu")
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor.item(), 3.0)

    def test_fails(self) -> None:
        """On rank 0."""
        self.assertEqual(self.rank, 1)

    @timeout(SHORT_S)
    def test_deadlock(self) -> None:
        """Both wait for the other, in C."""
        self.create_pg("cpu")
        dist.recv(torch.ones(1), 1 - self.rank)

    @timeout(SHORT_S)
    def test_on_0_only(self) -> None:
        """Rank 1 is not given this one."""

    def test_meets_nobody(self) -> None:
        """For a rank whose peers are elsewhere."""


class NoRanks(unittest.TestCase):
    """A case that has nothing to do with ranks."""

    def test_dies(self) -> None:
        """With the store, in a process that hosts it."""
        os._exit(4)


class Nine(DistributedTestBase):
    """More ranks than there are processes."""

    world_size = 9

    def test_never(self) -> None:
        """Cannot run."""


class Kept(MultiProcContinuousTest):
    """A case whose ranks keep their group elsewhere."""

    world_size = 3

    @classmethod
    def backend_str(cls) -> str:
        """gloo."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """Processors."""
        return "cpu"

    def test_first(self) -> None:
        """A barrier."""
        dist.barrier()
        self.assertEqual(dist.get_world_size(), 3)

    def test_second(self) -> None:
        """Another, after the class has kept something for itself."""
        self.test_first()


class Threads(MultiThreadedTestCase):
    """A case whose ranks are threads, of each process."""

    world_size = 2

    def setUp(self) -> None:
        """Starts them."""
        super().setUp()
        self._spawn_threads()

    def test_sum(self) -> None:
        """Passes."""
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor.item(), 3.0)


class _Result(unittest.TestResult):
    """Keeps (verdict, text) by test; the last word that is no pass counts."""

    def __init__(self) -> None:
        super().__init__()
        self.verdicts: dict[str, tuple[str, str]] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        """Passed, until it is known better."""
        super().startTest(test)
        self._put(test, "pass", "")

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        """ERROR."""
        super().addError(test, err)
        self._put(test, "ERROR", str(err[1]))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        """FAIL."""
        super().addFailure(test, err)
        self._put(test, "FAIL", str(err[1]))

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        """That of the test where it failed."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._put(test, "FAIL", str(err[1]))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """Skipped."""
        super().addSkip(test, reason)
        self._put(test, "skip", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        """As expected."""
        super().addExpectedFailure(test, err)
        self._put(test, "expected failure", "")

    def _put(self, test: unittest.TestCase, verdict: str, text: str) -> None:
        self.verdicts[test.id().removeprefix(f"{__name__}.")] = (verdict, text)

    def warned(self, name: str, messages: list[str]) -> None:
        """What a test that passed was warned of is its text."""
        if messages:
            self.verdicts[name] = (self.verdicts[name][0], "\n".join(messages))


def main(results: str, *names: str) -> NoReturn:
    """Runs tests of this module and ends as ``unittest.main`` does. What became of each is in ``results``,
    but for a test that its process does not come back from."""
    result = _Result()
    for name in names:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RankLeakWarning)
            unittest.defaultTestLoader.loadTestsFromName(f"{__name__}.{name}").run(result)
        result.warned(name, [str(w.message) for w in caught if w.category is RankLeakWarning])
        Path(results).write_text(json.dumps(result.verdicts))
    sys.exit(not result.wasSuccessful())
