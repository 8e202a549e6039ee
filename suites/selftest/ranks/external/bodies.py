"""Test bodies that ``test_mode`` runs on ranks which it starts itself, and the program of such a rank.

``main`` runs tests of this module, as unittest does, and writes the verdict of each to a file.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
import unittest
import warnings
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed import TCPStore

from harness import (
    DistributedTestBase,
    MultiProcContinuousTest,
    MultiThreadedTestCase,
    RankLeakWarning,
    timeout,
)
from suites.selftest.faults.patches import PATCHES, refuse

# Seconds. The deadline of the tests that run into it. Each rank counts from its own start, and on a busy
# machine one starts a second after the other.
SHORT_S = 4.0
# Seconds. The patience of a store's clients; only a broken test waits this long.
LONG_S = 300.0


def new_store() -> TCPStore:
    """Returns a store that this process hosts on a port that it chose, as torchrun's agent does."""
    patience = timedelta(seconds=LONG_S)
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=patience)


class Three(DistributedTestBase):
    """Tests on three ranks."""

    world_size = 3

    def total(self) -> float:
        """Returns the sum of the ranks' numbers, counted from 1, by all_reduce."""
        self.create_pg("cpu")
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        return float(tensor)

    def test_sum(self) -> None:
        """Passes."""
        self.assertEqual(self.total(), 6.0)

    def test_fails_on_1(self) -> None:
        """Rank 1 fails while the others wait for it, in C."""
        self.create_pg("cpu")
        self.assertNotEqual(self.rank, 1)
        dist.barrier()

    def test_raises_on_2(self) -> None:
        """Rank 2 raises; the others pass."""
        if self.rank == 2:
            raise RuntimeError("as planned")

    def test_skips(self) -> None:
        """Skips on all ranks."""
        self.skipTest("for all of us")

    def test_skips_on_2(self) -> None:
        """Rank 2 skips alone."""
        if self.rank == 2:
            self.skipTest("for me")

    def test_subtests(self) -> None:
        """One of two sub-tests fails, on rank 1."""
        for number in range(2):
            with self.subTest(number=number):
                self.assertFalse(number == 1 and self.rank == 1)

    def test_subtest_skips_on_1(self) -> None:
        """Rank 1 skips a sub-test alone."""
        with self.subTest(number=1):
            if self.rank == 1:
                self.skipTest("for me")

    async def test_coroutine(self) -> None:
        """Would fail if somebody ran it."""
        self.fail("never")

    def test_exits_on_1(self) -> None:
        """Rank 1 calls sys.exit."""
        if self.rank == 1:
            sys.exit(7)

    @timeout(SHORT_S)
    def test_sleeps_on_1(self) -> None:
        """Rank 1 sleeps in Python past the deadline; the others are done."""
        if self.rank == 1:
            time.sleep(3600)

    def test_leaves_dtype_on_0(self) -> None:
        """Rank 0 leaves a changed default dtype."""
        if self.rank == 0:
            torch.set_default_dtype(torch.float64)

    def test_dtype(self) -> None:
        """Sees and resets the default dtype that the test above left: these ranks are not replaced."""
        self.assertEqual(torch.get_default_dtype() is torch.float64, self.rank == 0)
        torch.set_default_dtype(torch.float32)

    def test_leaves_patches_on_1(self) -> None:
        """Rank 1 leaves functions and builtins replaced."""
        if self.rank == 1:
            PATCHES["functions"]()
            PATCHES["builtins"]()

    def test_leaves_patches_on_1_and_fails(self) -> None:
        """Rank 1 fails while functions and builtins are replaced."""
        self.test_leaves_patches_on_1()
        if self.rank == 1:
            raise AssertionError("the test's own")

    def test_replaces_json_on_1(self) -> None:
        """Rank 1 has json's functions replaced while the others report, and puts them back."""
        if self.rank == 1:
            with mock.patch("json.loads", refuse), mock.patch("json.dumps", refuse):
                time.sleep(1.0)

    @unittest.expectedFailure
    def test_expected(self) -> None:
        """All ranks fail, as expected."""
        self.fail("as expected")

    def test_dies_on_2(self) -> None:
        """Rank 2 dies while the others wait for it, in C."""
        self.create_pg("cpu")
        if self.rank == 2:
            os._exit(3)
        dist.barrier()


class SetUp(DistributedTestBase):
    """One of the three processes never runs its rank."""

    world_size = 3

    def setUp(self) -> None:
        """Skips in the process of rank 1."""
        if os.environ["RANK"] == "1":
            self.skipTest("not in this process")
        super().setUp()

    def test_passes(self) -> None:
        """Passes on the other ranks."""


class Two(DistributedTestBase):
    """Tests on fewer ranks than there are processes."""

    world_size = 2

    def test_sum(self) -> None:
        """Passes, on ranks 0 and 1."""
        self.assertEqual(os.environ["WORLD_SIZE"], "2")
        self.create_pg("cpu")
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor.item(), 3.0)

    def test_fails(self) -> None:
        """Fails on rank 0."""
        self.assertEqual(self.rank, 1)

    @timeout(60)
    def test_deadlock(self) -> None:
        """Each rank waits for a message from the other, in C."""
        self.create_pg("cpu")
        dist.recv(torch.ones(1), 1 - self.rank)

    @timeout(SHORT_S)
    def test_on_0_only(self) -> None:
        """Rank 1 is not given this test."""

    def test_dies(self) -> None:
        """The rank that DIES names dies while the other waits for it, in C."""
        self.create_pg("cpu")
        if str(self.rank) == os.environ["DIES"]:
            os._exit(3)
        dist.barrier()

    @timeout(SHORT_S)
    def test_holds_the_lock_on_1(self) -> None:
        """Rank 1 waits in C without giving the interpreter's lock away; the other is done."""
        if self.rank == 1:
            ctypes.PyDLL(None).sleep(100000)

    def test_meets_nobody(self) -> None:
        """Runs on a rank whose peers are elsewhere."""


class NoRanks(unittest.TestCase):
    """A case that uses no ranks."""

    def test_dies(self) -> None:
        """Ends the process, and with it the store if the process hosts it."""
        os._exit(4)


class Nine(DistributedTestBase):
    """A test on more ranks than there are processes."""

    world_size = 9

    def test_never(self) -> None:
        """Never runs."""


class Kept(MultiProcContinuousTest):
    """A case that would keep its process group on pooled ranks."""

    world_size = 3

    @classmethod
    def backend_str(cls) -> str:
        """Returns the name of gloo."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """Returns the type of the CPU."""
        return "cpu"

    def test_first(self) -> None:
        """Calls a barrier of the group."""
        dist.barrier()
        self.assertEqual(dist.get_world_size(), 3)

    def test_second(self) -> None:
        """Calls another barrier, after the class has kept something for itself."""
        self.test_first()


class Threads(MultiThreadedTestCase):
    """A case whose ranks are threads of each process."""

    world_size = 2

    def setUp(self) -> None:
        """Starts the ranks, which are threads."""
        super().setUp()
        self._spawn_threads()

    def test_sum(self) -> None:
        """Passes."""
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor.item(), 3.0)


class _Result(unittest.TestResult):
    """Keeps (verdict, text) by test; the last verdict other than a pass counts."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self._module = module
        self.verdicts: dict[str, tuple[str, str]] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        """Notes a pass until something else is known."""
        super().startTest(test)
        self._put(test, "pass", "")

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        """Notes that the test is an error."""
        super().addError(test, err)
        self._put(test, "ERROR", str(err[1]))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        """Notes that the test failed."""
        super().addFailure(test, err)
        self._put(test, "FAIL", str(err[1]))

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        """Notes a failed sub-test as a failure or an error of its test."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._put(test, "FAIL" if issubclass(err[0], test.failureException) else "ERROR", str(err[1]))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """Notes that the test was skipped."""
        super().addSkip(test, reason)
        self._put(test, "skip", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        """Notes an expected failure."""
        super().addExpectedFailure(test, err)
        self._put(test, "expected failure", "")

    def _put(self, test: unittest.TestCase, verdict: str, text: str) -> None:
        self.verdicts[test.id().removeprefix(f"{self._module}.")] = (verdict, text)

    def warned(self, name: str, messages: list[str]) -> None:
        """Makes the warnings of a test that passed the text of its verdict."""
        if messages:
            self.verdicts[name] = (self.verdicts[name][0], "\n".join(messages))


def main(results: str, *names: str) -> NoReturn:
    """Runs tests of this module as ``run_and_write`` does."""
    run_and_write(__name__, results, names)


def run_and_write(module: str, results: str, names: Sequence[str]) -> NoReturn:
    """Runs tests of a module, named without it, and ends as ``unittest.main`` does.

    It writes the verdicts to the file ``results`` after each test, so that only a test from which its process
    does not come back is missing.
    """
    result = _Result(module)
    for name in names:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RankLeakWarning)
            unittest.defaultTestLoader.loadTestsFromName(f"{module}.{name}").run(result)
        result.warned(name, [str(w.message) for w in caught if w.category is RankLeakWarning])
        Path(results).write_text(json.dumps(result.verdicts))
    sys.exit(not result.wasSuccessful())
