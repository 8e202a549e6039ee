"""Tests how sub-tests of several ranks merge into sub-tests of the test."""

from __future__ import annotations

import unittest

from harness.outcomes import Status
from harness.rank_merging import merge
from suites.selftest.outcomes_of_ranks import (
    ERRORS,
    E,
    F,
    P,
    S,
    rank,
    subtest,
)


class SubtestMergeTest(unittest.TestCase):
    """Sub-tests of several ranks."""

    def test_same_on_all_ranks(self) -> None:
        """One entry, all ranks."""
        outcome = merge([rank(n, F, error=None, subtests=(subtest(1, F),)) for n in range(2)])
        self.assertEqual(
            [(m.subtest.key, m.ranks) for m in outcome.subtests], [((None, (("n", "1"),)), (0, 1))]
        )
        self.assertEqual((outcome.status, outcome.reason), (F, "rank 0: 1 sub-test failed"))

    def test_worst_counts(self) -> None:
        """Passed on rank 0, failed on 1, error on 2: an error of rank 2."""
        outcome = merge([rank(n, P, subtests=(subtest(0, s),)) for n, s in enumerate((P, F, E))])
        (merged,) = outcome.subtests
        self.assertEqual((merged.subtest.status, merged.ranks), (E, (2,)))

    def test_divergent_skip(self) -> None:
        """A sub-test that some ranks skip and others do not is an error, whatever those came to."""
        for others, cause in ((P, 0), (F, 1), (E, 1)):
            outcome = merge(
                [rank(0, P, subtests=(subtest(0, S),)), rank(1, P, subtests=(subtest(0, others),))]
            )
            self.assertEqual((outcome.status, outcome.root_cause), (E, cause))
            words = (
                f"divergent skip: rank 0 skipped (no reason given), rank 1 did not (rank 1 {others.value})"
            )
            self.assertEqual(outcome.reason, f"sub-test (n=0): {words}; a real job would deadlock here")
            (merged,) = outcome.subtests
            self.assertEqual((merged.subtest.status, merged.ranks), (E, (0, 1)))
            assert merged.subtest.error is not None
            self.assertIn(words, merged.subtest.error.traceback)
            if others is not P:
                self.assertIn(ERRORS[others].traceback, merged.subtest.error.traceback)

    def test_sub_tests_of_some_ranks(self) -> None:
        """A sub-test that others do not have diverges from nothing: parameters often contain the rank."""
        outcome = merge([rank(n, P, subtests=(subtest(n, s),)) for n, s in enumerate((P, S))])
        self.assertEqual((outcome.status, [m.divergence for m in outcome.subtests]), (P, ["", ""]))

    def test_the_same_twice(self) -> None:
        """Sub-tests with the same key on one rank stay two; they diverge only where ranks have as many."""

        def status_of(*by_rank: tuple[Status, ...]) -> tuple[Status, list[Status]]:
            made = [tuple(subtest(0, s) for s in statuses) for statuses in by_rank]
            outcome = merge([rank(n, P, subtests=own) for n, own in enumerate(made)])
            return outcome.status, [m.subtest.status for m in outcome.subtests]

        self.assertEqual(status_of((F, P), (F, P)), (F, [F, P]))
        self.assertEqual(status_of((P, S), (P, S)), (P, [P, S]))
        self.assertEqual(status_of((S, P), (P, S)), (E, [E, E]))
        self.assertEqual(status_of((P, S), (S,)), (P, [S, S]))

    def test_order_of_appearance(self) -> None:
        """By rank, then as each rank ran them."""
        outcome = merge(
            [rank(0, P, subtests=(subtest(2, P), subtest(1, P))), rank(1, P, subtests=(subtest(3, P),))]
        )
        self.assertEqual([m.subtest.params[0][1] for m in outcome.subtests], ["2", "1", "3"])

    def test_failure_and_error(self) -> None:
        """Any error makes it an error, only failures make it a failure."""
        failing = merge([rank(0, F, error=None, subtests=(subtest(0, F), subtest(1, F)))])
        mixed = merge([rank(0, E, error=None, subtests=(subtest(0, F), subtest(1, E)))])
        self.assertEqual((failing.status, mixed.status), (F, E))
        self.assertEqual(failing.reason, "rank 0: 2 sub-tests failed")

    def test_passed_rank_with_a_bad_subtest(self) -> None:
        """Does not pass the test, whatever the rank calls itself."""
        self.assertEqual(merge([rank(0, P, subtests=(subtest(0, F),))]).status, F)


if __name__ == "__main__":
    unittest.main()
