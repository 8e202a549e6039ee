"""Tests what the supervisor makes of sub-tests that fail before their rank reports."""

from __future__ import annotations

import signal
import unittest
from dataclasses import replace

from harness.outcomes import Status
from harness.rank_merging import merge
from harness.ranks.deadlines import Limits
from suites.selftest.ranks.processes.supervised import (
    FAILURE,
    SUBTEST,
    SupervisorCase,
)


class SubtestTest(SupervisorCase):
    """Failed sub-tests, which ranks send at once."""

    def test_sub_test_of_a_rank_that_hangs(self) -> None:
        """A failed sub-test of a rank that hangs is the cause; one that fails on being ended is ignored."""
        self.ranks.fails_subtest(1, SUBTEST)
        late = replace(SUBTEST, params=(("n", "2"),))

        def fail_and_die() -> None:
            self.ranks.fails_subtest(1, late)
            self.ranks.exits(1, -signal.SIGTERM)

        self.ranks.on[1, int(signal.SIGTERM)] = fail_and_die
        self.dies_of(0, signal.SIGTERM)
        watched = self.watch()
        self.assertEqual(self.statuses(watched), [Status.TIMED_OUT] * 2)
        self.assertEqual([o.subtests for o in watched.outcomes], [(), (SUBTEST,)])
        self.assertEqual(merge(watched.outcomes).root_cause, 1)

    def test_sub_test_hurries_nobody(self) -> None:
        """A failed sub-test starts no grace, and the rank's later report holds the sub-test once."""
        self.ranks.fails_subtest(1, SUBTEST)
        for rank in (0, 1):
            self.leaves_when_released(rank, code=10 * rank)

        def report() -> None:
            self.ranks.says(0, Status.PASSED)
            self.ranks.says(1, Status.FAILED, subtests=(SUBTEST,))

        clock = self.jumping_clock(report)
        watched = self.watch(Limits(timeout_s=1e6, grace_s=1, skip_grace_s=1, exit_grace_s=1e6), clock)
        self.assertEqual(self.statuses(watched), [Status.PASSED, Status.FAILED])
        self.assertEqual(watched.outcomes[1].subtests, (SUBTEST,))

    def test_sub_test_in_the_order_of_news(self) -> None:
        """A sub-test that failed before a peer did comes first and is the root cause."""
        self.ranks.fails_subtest(1, SUBTEST)
        self.leaves_when_released(0, code=10)
        self.dies_of(1, signal.SIGTERM)
        clock = self.jumping_clock(lambda: self.ranks.says(0, Status.FAILED, error=FAILURE))
        watched = self.watch(Limits(timeout_s=1e6, grace_s=1, skip_grace_s=1, exit_grace_s=1e6), clock)
        self.assertEqual(self.statuses(watched), [Status.FAILED, Status.ENDED])
        self.assertEqual(merge(watched.outcomes).root_cause, 1)


if __name__ == "__main__":
    unittest.main()
