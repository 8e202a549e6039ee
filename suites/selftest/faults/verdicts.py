"""Skips, sub-tests, cleanups and expectations that not all ranks share."""

from __future__ import annotations

import os
import unittest

from suites.selftest.faults.base import FaultyCase


class Skips(FaultyCase):
    """Ranks that skip."""

    def test_all_for_one_reason(self) -> None:
        """An ordinary skip."""
        self.skipTest("no such thing here")

    def test_all_for_different_reasons(self) -> None:
        """Still a skip."""
        self.skipTest(f"reason {self.rank}")

    def test_one_while_the_other_passes(self) -> None:
        """Divergent."""
        if self.rank == 1:
            self.skipTest("not on rank 1")

    def test_one_while_the_other_fails(self) -> None:
        """Divergent too, and the failure must not be lost."""
        if self.rank == 1:
            self.skipTest("not on rank 1")
        self.fail("rank 0 went on alone")

    @unittest.skip("by decorator")
    def test_by_decorator(self) -> None:
        """No rank is started for it."""


@unittest.skip("the whole class")
class SkippedClass(FaultyCase):
    """No rank is started for it."""

    def test_anything(self) -> None:
        """Never runs."""


class Cleanups(FaultyCase):
    """What runs in a rank around the method."""

    def test_cleanup_fails(self) -> None:
        """An assertion, after the method passed."""
        if self.rank == 1:
            self.addCleanup(self.fail, "nothing was tidy")

    def test_cleanup_raises(self) -> None:
        """Something else, after the method passed."""
        if self.rank == 1:
            self.addCleanup(os.rmdir, "/nonexistent-directory-of-a-self-test")

    def test_fails_and_cleanup_fails(self) -> None:
        """The first failure is the cause, the second is told."""
        if self.rank == 1:
            self.addCleanup(self.fail, "nothing was tidy")
            self.fail("the test itself")

    def test_cleanups_run_in_the_rank(self) -> None:
        """In reverse order, in this process."""
        me = os.getpid()
        self.addCleanup(lambda: print("last", os.getpid() == me))
        self.addCleanup(lambda: print("first", os.getpid() == me))
        self.fail("so that the output is shown")


class SetUpRankFails(FaultyCase):
    """The method never runs."""

    def setUpRank(self) -> None:
        if self.rank == 1:
            raise OSError("no room on rank 1")

    def test_anything(self) -> None:
        """Passes on rank 0."""


class TearDownRankFails(FaultyCase):
    """The method has passed."""

    def tearDownRank(self) -> None:
        if self.rank == 1:
            self.fail("rank 1 cannot be torn down")

    def test_anything(self) -> None:
        """Passes everywhere."""


class AroundRanks(FaultyCase):
    """The order of what runs in a rank, and that it is a rank that it runs in."""

    def setUp(self) -> None:
        super().setUp()
        self.parent_pid = os.getpid()

    def setUpRank(self) -> None:
        self.steps = ["setUpRank"]
        self.addCleanup(self.show)

    def tearDownRank(self) -> None:
        self.steps.append("tearDownRank")

    def show(self) -> None:
        """The last cleanup."""
        print(" ".join(self.steps), hasattr(self, "parent_pid"))

    def test_order(self) -> None:
        """Fails, so that the output is shown."""
        self.steps.append("test")
        self.fail("to see the order")


class Subtests(FaultyCase):
    """Sub-tests that go wrong."""

    def test_some_ranks(self) -> None:
        """One of three, on rank 1."""
        for n in range(3):
            with self.subTest("part", n=n):
                self.assertFalse(n == 1 and self.rank == 1, "part 1 is bad on rank 1")

    def test_all_ranks(self) -> None:
        """One of three, everywhere."""
        for n in range(3):
            with self.subTest(n=n):
                self.assertNotEqual(n, 2, "part 2 is bad everywhere")

    def test_error_and_failure(self) -> None:
        """Two of them, of different kinds."""
        with self.subTest(n=0):
            self.fail("wrong")
        with self.subTest(n=1):
            raise ValueError("worse")

    def test_then_the_test_fails(self) -> None:
        """The method goes wrong after a sub-test did."""
        with self.subTest(n=0):
            self.fail("the sub-test")
        self.fail("the test")

    def test_then_the_rank_dies(self) -> None:
        """Rank 1, in which the sub-test has failed."""
        with self.subTest(n=0):
            self.assertEqual(self.rank, 0, "the sub-test")
        if self.rank == 1:
            os._exit(5)

    def test_skipped(self) -> None:
        """A sub-test skips on every rank."""
        for n in range(2):
            with self.subTest(n=n):
                if n == 1:
                    self.skipTest("not this one")

    def test_pass(self) -> None:
        """Nothing wrong."""
        for n in range(3):
            with self.subTest(n=n):
                self.assertLess(n, 3)


class Expected(FaultyCase):
    """``expectedFailure``."""

    @unittest.expectedFailure
    def test_fails_everywhere(self) -> None:
        """As expected."""
        self.fail("as expected")

    @unittest.expectedFailure
    def test_fails_on_one_rank(self) -> None:
        """As expected."""
        if self.rank == 1:
            self.fail("as expected")

    @unittest.expectedFailure
    def test_passes(self) -> None:
        """An unexpected success."""

    @unittest.expectedFailure
    def test_crashes(self) -> None:
        """Nobody expects that."""
        if self.rank == 1:
            os._exit(3)

    @unittest.expectedFailure
    def test_skips_on_one_rank(self) -> None:
        """Nor that."""
        if self.rank == 1:
            self.skipTest("not on rank 1")

    @unittest.expectedFailure
    def test_subtest_fails(self) -> None:
        """As expected."""
        with self.subTest(n=1):
            self.fail("as expected")
