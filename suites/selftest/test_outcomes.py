"""Tests the words for outcomes of ranks: which ranks, how they ended, which errors are alike."""

from __future__ import annotations

import unittest

from hypothesis import strategies as st

from harness.outcomes import (
    ErrorInfo,
    describe,
    exit_text,
    group_errors,
    ranks_text,
)
from harness.rank_merging import merge
from suites.selftest.outcomes_of_ranks import C, E, F, P, T, rank, ranks, subtest
from suites.selftest.properties import given


class WordsTest(unittest.TestCase):
    """The lines that people read."""

    def test_ranks_text(self) -> None:
        """Runs of three and more are ranges."""
        for numbers, text in [
            ([1], "rank 1"),
            ([1, 1], "rank 1"),
            ([0, 1], "ranks 0, 1"),
            ([0, 1, 2], "ranks 0-2"),
            ([3, 1, 2, 0], "ranks 0-3"),
            ([0, 2, 5, 6, 7], "ranks 0, 2, 5-7"),
            ([5, 6, 9, 10, 11], "ranks 5, 6, 9-11"),
        ]:
            self.assertEqual(ranks_text(numbers), text)

    @given(st.sets(st.integers(0, 300), min_size=1))
    def test_ranks_text_is_lossless(self, numbers: set[int]) -> None:
        """What it says can be read back."""
        parts = ranks_text(numbers).partition(" ")[2].split(", ")
        read: set[int] = set()
        for part in parts:
            low, _, high = part.partition("-")
            read |= set(range(int(low), int(high or low) + 1))
        self.assertEqual(read, numbers)

    def test_exit_text(self) -> None:
        """Codes, signals, signals without a name, nothing yet."""
        self.assertEqual(exit_text(3), "exit code 3")
        self.assertEqual(exit_text(-11), "signal SIGSEGV")
        self.assertEqual(exit_text(-40), "signal 40")
        self.assertEqual(exit_text(None), "no exit yet")

    def test_describe(self) -> None:
        """One line a status."""
        for outcome, text in [
            (rank(1, C, exit_code=-9), "rank 1 crashed: signal SIGKILL without an outcome"),
            (
                rank(1, C, exit_code=0, note="by hand"),
                "rank 1 crashed: exit code 0 without an outcome (by hand)",
            ),
            (
                rank(1, C, exit_code=3, subtests=(subtest(0, F), subtest(1, E))),
                "rank 1 crashed: exit code 3 without an outcome after 2 sub-tests had failed",
            ),
            (rank(1, T), "rank 1 timed out"),
            (rank(1, T, phase="exit"), "rank 1 timed out while exiting"),
            (rank(1, F), "rank 1 failed: AssertionError: 1 != 2"),
            (rank(1, E), "rank 1 raised: ValueError: no such value"),
            (rank(1, P), "rank 1 passed"),
        ]:
            self.assertEqual(describe(outcome), text)

    def test_headline(self) -> None:
        """The first line of a message, or only the type."""
        self.assertEqual(ErrorInfo("ValueError", "\n one \n two", "").headline, "ValueError: one ")
        self.assertEqual(ErrorInfo("ValueError", " \n", "").headline, "ValueError")

    def test_group_errors(self) -> None:
        """Equal tracebacks once, first received first, ranks in order."""
        outcomes = [rank(0, F, order=3), rank(1, E, order=1), rank(2, F, order=0), rank(3, P)]
        self.assertEqual([g.ranks for g in group_errors(outcomes)], [(0, 2), (1,)])

    def test_rank_not_there(self) -> None:
        """A rank that is not there is a KeyError."""
        with self.assertRaises(KeyError):
            merge(ranks(P)).rank(1)


if __name__ == "__main__":
    unittest.main()
