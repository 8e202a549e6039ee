"""Self-tests of harness.report.progress: the counts of a running run, and the estimate of its end."""

from __future__ import annotations

import unittest

from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.base import RunInfo, TestStarted
from harness.report.progress import Progress


def begun(total: int = 4, jobs: int = 1, **expected_s: float) -> Progress:
    return Progress(RunInfo(total=total, jobs=jobs, started_s=100.0, expected_s=expected_s))


class CountsTest(unittest.TestCase):
    """The properties ``counts`` and ``running``."""

    def test_rerun_replaces_its_first_attempt(self) -> None:
        progress = begun()
        progress.finished(TestRecord("a", Status.FAILED))
        self.assertEqual((progress.counts.done, progress.counts.failed), (1, 1))
        progress.finished(TestRecord("a", Status.PASSED, attempt=2))
        self.assertEqual((progress.counts.done, progress.counts.failed, progress.counts.total), (1, 0, 4))

    def test_more_than_was_announced(self) -> None:
        """The total grows with tests that were not announced."""
        progress = begun(total=1)
        for repeat in (1, 2):
            progress.finished(TestRecord("a", Status.PASSED, repeat=repeat))
        self.assertEqual((progress.counts.total, progress.counts.done), (2, 2))

    def test_running_longest_first(self) -> None:
        progress = begun()
        progress.started(TestStarted("late", "w1", 5.0))
        progress.started(TestStarted("early", "w2", 2.0))
        self.assertEqual([e.id for e in progress.running], ["early", "late"])
        progress.finished(TestRecord("early", Status.PASSED, worker="w2"))
        self.assertEqual([e.id for e in progress.running], ["late"])


class LeftTest(unittest.TestCase):
    """``left_s``: the estimate of the remaining seconds."""

    def test_plan_before_anything_has_happened(self) -> None:
        self.assertAlmostEqual(begun(2, a=30, b=10).left_s(100.0), 40.0)
        self.assertAlmostEqual(begun(2, jobs=4, a=30, b=10).left_s(100.0), 10.0)

    def test_nothing_left(self) -> None:
        progress = begun(1, a=3)
        progress.finished(TestRecord("a", Status.PASSED))
        self.assertEqual(progress.left_s(103.0), 0.0)

    def test_slow_machine_is_noticed(self) -> None:
        tests = {f"t{n}": 10.0 for n in range(10)}
        progress = Progress(RunInfo(total=10, started_s=100.0, expected_s=tests))
        for n in range(5):
            progress.finished(TestRecord(f"t{n}", Status.PASSED, duration_s=40.0))
        self.assertGreater(progress.left_s(300.0), 170.0)

    def test_repeats_take_as_long_each(self) -> None:
        tests = {"a": 30.0, "b": 10.0}
        progress = Progress(RunInfo(total=6, started_s=100.0, expected_s=tests, repeats=3))
        self.assertAlmostEqual(progress.left_s(100.0), 120.0)
        now = 100.0
        for repeat, left in ((1, 80.0), (2, 40.0), (3, 0.0)):
            for name, seconds in tests.items():
                now += seconds
                progress.finished(TestRecord(name, Status.PASSED, repeat=repeat, duration_s=seconds))
            self.assertAlmostEqual(progress.left_s(now), left)

    def test_the_rest_of_some_repeats(self) -> None:
        """Attempts that an earlier run has done are not due again."""
        progress = Progress(RunInfo(total=2, started_s=100.0, expected_s={"a": 30.0, "b": 10.0}, repeats=3))
        self.assertAlmostEqual(progress.left_s(100.0), 40.0)

    def test_rerun_is_no_progress(self) -> None:
        progress = begun(2, a=5, b=5)
        progress.finished(TestRecord("a", Status.FAILED, duration_s=5.0))
        before = progress.left_s(105.0)
        progress.finished(TestRecord("a", Status.PASSED, attempt=2))
        self.assertEqual(progress.left_s(105.0), before)

    def test_never_less_than_the_longest_running_test_needs(self) -> None:
        progress = begun(1, jobs=8, a=60)
        progress.started(TestStarted("a", "w1", 100.0))
        self.assertAlmostEqual(progress.left_s(110.0), 50.0)

    def test_overdue_test_promises_no_end(self) -> None:
        """A test that runs longer than expected may need half as long again as it has taken: never 0:00."""
        progress = begun(1, a=1)
        progress.started(TestStarted("a", "w1", 100.0))
        self.assertEqual(progress.left_s(500.0), 200.0)

    def test_unknown_running_test_counts(self) -> None:
        """While one test without expected time runs on, the others that are to come get as long."""
        progress = Progress(RunInfo(total=8, jobs=1, started_s=100.0))
        progress.started(TestStarted("a", "w1", 100.0))
        self.assertLess(progress.left_s(100.0), progress.left_s(101.0))
        self.assertGreater(progress.left_s(101.5), 1.5)

    def test_unknown_tests_count_like_those_before_them(self) -> None:
        progress = begun(3)
        progress.finished(TestRecord("a", Status.PASSED, duration_s=7.0))
        self.assertAlmostEqual(progress.left_s(107.0), 14.0)

    def test_unknown_tests_without_anything_to_go_by(self) -> None:
        """Without any known time an estimate is still made."""
        self.assertGreater(begun(100).left_s(100.0), 0.0)


if __name__ == "__main__":
    unittest.main()
