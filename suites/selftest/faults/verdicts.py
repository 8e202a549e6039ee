"""Skips, sub-tests, cleanups and expected failures on which the ranks agree or differ."""

from __future__ import annotations

import os
import unittest
from collections.abc import Iterator
from typing import Any

from harness import instantiate_parametrized_tests, parametrize
from suites.selftest.faults.base import FaultyCase


class Skips(FaultyCase):
    """Tests of which some or all ranks skip."""

    def test_all_for_one_reason(self) -> None:
        """All ranks skip for one reason."""
        self.skipTest("no such thing here")

    def test_all_for_different_reasons(self) -> None:
        """All ranks skip, each for a reason of its own."""
        self.skipTest(f"reason {self.rank}")

    def test_one_while_the_other_passes(self) -> None:
        """Rank 1 skips while rank 0 passes."""
        if self.rank == 1:
            self.skipTest("not on rank 1")

    def test_one_while_the_other_fails(self) -> None:
        """Rank 1 skips while rank 0 fails, and the failure must not be lost."""
        if self.rank == 1:
            self.skipTest("not on rank 1")
        self.fail("rank 0 went on alone")

    @unittest.skip("by decorator")
    def test_by_decorator(self) -> None:
        """Skipped by a decorator, so that no rank is started."""


@unittest.skip("the whole class")
class SkippedClass(FaultyCase):
    """A class that is skipped as a whole, so that no rank is started."""

    def test_anything(self) -> None:
        """Never runs."""


class Cleanups(FaultyCase):
    """Code that runs in a rank after the method."""

    def test_cleanup_fails(self) -> None:
        """Rank 1 fails an assertion in a cleanup, after the method has passed."""
        if self.rank == 1:
            self.addCleanup(self.fail, "nothing was tidy")

    def test_cleanup_raises(self) -> None:
        """Rank 1 raises another exception in a cleanup, after the method has passed."""
        if self.rank == 1:
            self.addCleanup(os.rmdir, "/nonexistent-directory-of-a-self-test")

    def test_fails_and_cleanup_fails(self) -> None:
        """Rank 1 fails first in the method, which is the cause, and then in a cleanup, which is shown too."""
        if self.rank == 1:
            self.addCleanup(self.fail, "nothing was tidy")
            self.fail("the test itself")

    def test_cleanups_run_in_the_rank(self) -> None:
        """Cleanups run in the rank's process, in reverse order."""
        me = os.getpid()
        self.addCleanup(lambda: print("last", os.getpid() == me))
        self.addCleanup(lambda: print("first", os.getpid() == me))
        self.fail("so that the output is shown")


class SetUpRankFails(FaultyCase):
    """setUpRank raises on rank 1, so that the method never runs there."""

    def setUpRank(self) -> None:
        if self.rank == 1:
            raise OSError("no room on rank 1")

    def test_anything(self) -> None:
        """Passes on rank 0."""


class TearDownRankFails(FaultyCase):
    """tearDownRank fails on rank 1, after the method has passed."""

    def tearDownRank(self) -> None:
        if self.rank == 1:
            self.fail("rank 1 cannot be torn down")

    def test_anything(self) -> None:
        """Passes on all ranks."""


class AroundRanks(FaultyCase):
    """Notes the order of the hooks, and that they run in a rank and not in the parent."""

    def setUp(self) -> None:
        super().setUp()
        self.parent_pid = os.getpid()

    def setUpRank(self) -> None:
        self.steps = ["setUpRank"]
        self.addCleanup(self.show)

    def tearDownRank(self) -> None:
        self.steps.append("tearDownRank")

    def show(self) -> None:
        """Prints the order; it is the last cleanup."""
        print(" ".join(self.steps), hasattr(self, "parent_pid"))

    def test_order(self) -> None:
        """Fails, so that the rank's output is shown."""
        self.steps.append("test")
        self.fail("to see the order")


class Subtests(FaultyCase):
    """Tests whose sub-tests go wrong."""

    def test_some_ranks(self) -> None:
        """One of three sub-tests fails, on rank 1."""
        for n in range(3):
            with self.subTest("part", n=n):
                self.assertFalse(n == 1 and self.rank == 1, "part 1 is bad on rank 1")

    def test_all_ranks(self) -> None:
        """One of three sub-tests fails, on all ranks."""
        for n in range(3):
            with self.subTest(n=n):
                self.assertNotEqual(n, 2, "part 2 is bad everywhere")

    def test_error_and_failure(self) -> None:
        """One sub-test fails and another raises."""
        with self.subTest(n=0):
            self.fail("wrong")
        with self.subTest(n=1):
            raise ValueError("worse")

    def test_then_the_test_fails(self) -> None:
        """The method fails after one of its sub-tests failed."""
        with self.subTest(n=0):
            self.fail("the sub-test")
        self.fail("the test")

    def test_then_the_rank_dies(self) -> None:
        """Rank 1 dies after its sub-test has failed."""
        with self.subTest(n=0):
            self.assertEqual(self.rank, 0, "the sub-test")
        if self.rank == 1:
            os._exit(5)

    def test_skipped(self) -> None:
        """One of two sub-tests skips, on every rank."""
        for n in range(2):
            with self.subTest(n=n):
                if n == 1:
                    self.skipTest("not this one")

    def test_fails_then_skips(self) -> None:
        """A sub-test fails on rank 1, and then the test skips on all ranks."""
        with self.subTest(n=1):
            self.assertNotEqual(self.rank, 1)
        self.skipTest("the rest")

    def test_one_rank_skips(self) -> None:
        """Rank 1 skips one of two sub-tests alone; another one is only on rank 0."""
        with self.subTest("part", n=1):
            pass
        with self.subTest("part", n=2):
            if self.rank == 1:
                self.skipTest("not on rank 1")
        with self.subTest(rank=self.rank):
            self.assertIn(self.rank, (0, 1))

    def test_skips_by_rank(self) -> None:
        """Each rank has sub-tests of its own, which it may skip alone."""
        with self.subTest(rank=self.rank):
            if self.rank == 1:
                self.skipTest("not on rank 1")

    def test_pass(self) -> None:
        """Passes in all of its sub-tests."""
        for n in range(3):
            with self.subTest(n=n):
                self.assertLess(n, 3)


class Expected(FaultyCase):
    """Tests that are decorated with ``expectedFailure``."""

    @unittest.expectedFailure
    def test_fails_everywhere(self) -> None:
        """Fails on all ranks, as expected."""
        self.fail("as expected")

    @unittest.expectedFailure
    def test_fails_on_one_rank(self) -> None:
        """Fails on rank 1 only, as expected."""
        if self.rank == 1:
            self.fail("as expected")

    @unittest.expectedFailure
    def test_passes(self) -> None:
        """Passes, which is an unexpected success."""

    @unittest.expectedFailure
    def test_crashes(self) -> None:
        """Rank 1 dies, which is no expected failure."""
        if self.rank == 1:
            os._exit(3)

    @unittest.expectedFailure
    def test_skips_on_one_rank(self) -> None:
        """Rank 1 skips alone, which is no expected failure."""
        if self.rank == 1:
            self.skipTest("not on rank 1")

    @unittest.expectedFailure
    def test_cleanup_fails(self) -> None:
        """Fails as expected on both ranks; a cleanup of rank 1 fails, which nobody expects."""
        if self.rank == 1:
            self.addCleanup(self.fail, "nothing was tidy")
        self.fail("as expected")

    @unittest.expectedFailure
    def test_subtest_fails(self) -> None:
        """A sub-test fails, as expected."""
        with self.subTest(n=1):
            self.fail("as expected")


class ExpectedFirst(FaultyCase):
    """A test with ``expectedFailure`` in which the expected comes first."""

    arrivals = 2

    @unittest.expectedFailure
    def test_crashes_beside_a_failure(self) -> None:
        """Rank 1 dies, which nobody expects, once rank 0 has reported that it failed as expected."""
        if self.rank == 1:
            self.follow()
            os._exit(3)
        self.leave()
        self.fail("as expected")


@instantiate_parametrized_tests
class NotOrdinary(FaultyCase):
    """Tests whose bodies no call of the method runs."""

    async def test_coroutine(self) -> None:
        """Would fail if somebody ran it."""
        self.fail("never")

    @parametrize("x", [1])
    async def test_of_value(self, x: int) -> None:
        """Would fail if somebody ran it."""
        self.fail("never")

    def test_hides_a_coroutine(self) -> Any:
        """Returns what a decorator returns of a coroutine function."""
        return self.test_coroutine()

    def test_generator(self) -> Iterator[None]:
        """Would fail if somebody ran it."""
        yield
        self.fail("never")

    @unittest.expectedFailure
    async def test_expected(self) -> None:
        """Would fail as expected if somebody ran it."""
        self.fail("never")


class WithEventLoop(FaultyCase, unittest.IsolatedAsyncioTestCase):
    """A case for coroutines, of which the parent alone could run the event loop."""

    async def test_coroutine(self) -> None:
        """Would fail if somebody ran it."""
        self.fail("never")


class PatchesUnittest(FaultyCase):
    """A test after which unittest calls no method, and one that runs after it in the same ranks."""

    def test_a_patches(self) -> None:
        """Passes."""
        unittest.TestCase._callTestMethod = lambda self, method: None  # type: ignore[attr-defined]  # not in typeshed

    def test_b_fails(self) -> None:
        """Fails, if it is called."""
        self.fail("called")
