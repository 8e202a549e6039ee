"""Tests how a merged outcome becomes what unittest is told."""

from __future__ import annotations

import unittest
import warnings
from dataclasses import replace
from typing import Any, cast

from harness.cases import verdict
from harness.errors import InterruptReport, RankError, RankFailure, RankLeakWarning
from harness.outcomes import ErrorInfo, RankOutcome, Status, SubtestOutcome, TestOutcome
from harness.rank_merging import merge
from harness.ranks.job import JobResult

FAILED = ErrorInfo("AssertionError", "1 != 2", "Traceback ...\nAssertionError: 1 != 2\n", is_assertion=True)
RAISED = ErrorInfo("ValueError", "no", "Traceback ...\nValueError: no\n")
BAD = SubtestOutcome(None, (("x", "1"),), Status.FAILED, FAILED)


def ranks(*statuses: Status) -> TestOutcome:
    """The merged outcome of ranks that ended so."""
    errors = {Status.FAILED: FAILED, Status.ERROR: RAISED}
    return merge(
        [
            RankOutcome(n, s, errors.get(s), skip_reason="no GPU" if s is Status.SKIPPED else None)
            for n, s in enumerate(statuses)
        ]
    )


class Case(unittest.TestCase):
    """A case whose test raises the verdict on a given outcome."""

    outcome = ranks(Status.PASSED)

    def plain(self) -> None:
        """Raises the verdict on the outcome."""
        verdict.raise_verdict(self, self.outcome)

    @unittest.expectedFailure
    def expected(self) -> None:
        """Raises the verdict, where a failure is expected."""
        verdict.raise_verdict(self, self.outcome)


def play(outcome: TestOutcome, method: str = "plain") -> unittest.TestResult:
    """What unittest reports about a test whose ranks came to an outcome."""
    case, result = Case(method), unittest.TestResult()
    case.outcome = outcome
    case.run(result)
    return result


class RaiseVerdictTest(unittest.TestCase):
    """``raise_verdict``: skip, failure, error, sub-tests and warnings."""

    def test_exceptions(self) -> None:
        """A failed assertion is a failure, all else that went wrong an error, and a common skip a skip."""
        for statuses, error in (
            ((Status.FAILED, Status.PASSED), RankFailure),
            ((Status.ERROR, Status.FAILED), RankError),
            ((Status.PASSED, Status.CRASHED), RankError),
            ((Status.TIMED_OUT, Status.TIMED_OUT), RankError),
            ((Status.SKIPPED, Status.PASSED), RankError),
            ((Status.SKIPPED, Status.SKIPPED), unittest.SkipTest),
        ):
            with self.subTest(statuses=statuses), self.assertRaises(error) as caught:
                verdict.raise_verdict(Case("plain"), ranks(*statuses))
            self.assertIs(type(caught.exception), error)
        verdict.raise_verdict(Case("plain"), ranks(Status.PASSED, Status.PASSED))

    def test_expected_failure(self) -> None:
        """``expectedFailure`` accepts a method's failure, but no other one, no crash, hang or divergence."""
        failed = RankOutcome(0, Status.FAILED, FAILED, expected=True)
        passed = RankOutcome(1, Status.PASSED)
        self.assertEqual(len(play(merge([failed, passed]), "expected").expectedFailures), 1)
        torn_down = replace(failed, rank=1, expected=False)
        for others in (torn_down, replace(passed, subtests=(BAD,)), replace(failed, rank=1, phase="exit")):
            result = play(merge([failed, others]), "expected")
            self.assertEqual((bool(result.failures), result.expectedFailures), (True, []))
        for status in (Status.CRASHED, Status.TIMED_OUT, Status.SKIPPED):
            for other in (passed, replace(failed, rank=1)):
                with self.subTest(status=status, other=other):
                    result = play(merge([*ranks(status).ranks, other]), "expected")
                    self.assertEqual((len(result.errors), result.failures), (1, []))
                    self.assertFalse(result.wasSuccessful())

    def test_expected_failure_beside_a_skipped_subtest(self) -> None:
        """A sub-test that only some ranks skipped does not hide the expected failure of the others.

        Where every rank skipped it, the test has no result but the skip, as in unittest.
        """
        skipped = SubtestOutcome(None, (), Status.SKIPPED, skip_reason="no")
        one = RankOutcome(0, Status.PASSED, subtests=(skipped,))
        failed = RankOutcome(1, Status.FAILED, FAILED, expected=True)
        both = [replace(failed, rank=rank, subtests=(skipped,)) for rank in (0, 1)]
        for name, outcomes, expected, skips in (("one", [one, failed], 1, 0), ("all", both, 0, 1)):
            with self.subTest(name):
                result = play(merge(outcomes), "expected")
                self.assertEqual((len(result.expectedFailures), len(result.skipped)), (expected, skips))
                self.assertEqual((result.failures, result.errors), ([], []))

    def test_failure_and_skip(self) -> None:
        """A test that failed and skipped is reported as both, as unittest does; so is one with a sub-test."""
        both = RankOutcome(0, Status.FAILED, FAILED, skip_reason="no GPU")
        for rank in (both, replace(both, error=None, subtests=(BAD,))):
            result = play(merge([rank]))
            self.assertEqual(len(result.failures), 1)
            self.assertEqual([reason for _, reason in result.skipped], ["no GPU"])

    def test_failure_exception(self) -> None:
        """A failed assertion is a failure also where the class has an exception of its own for that."""

        class Own(Case):
            failureException = ZeroDivisionError
            outcome = ranks(Status.FAILED)

        result = unittest.TestResult()
        Own("plain").run(result)
        self.assertEqual((len(result.failures), result.errors), (1, []))

    def test_result_without_subtests(self) -> None:
        """A failure is told to a result that knows no sub-tests, also where another sub-test was skipped."""
        skipped = SubtestOutcome(None, (), Status.SKIPPED, skip_reason="no")
        told: list[str] = []

        class Plain:
            failfast = shouldStop = False

            def __getattr__(self, name: str) -> Any:
                if name == "addSubTest":
                    raise AttributeError(name)
                return lambda *_: told.append(name)

        case = Case("plain")
        case.outcome = merge([RankOutcome(0, Status.FAILED, subtests=(skipped, BAD))])
        case.run(cast(Any, Plain()))
        self.assertIn("addFailure", told)
        self.assertNotIn("addSkip", told)

    def test_subtests(self) -> None:
        """Failing sub-tests are reported one by one, and the test itself does not fail once more."""
        bad = BAD
        skipped = SubtestOutcome(None, (("x", "2"),), Status.SKIPPED, skip_reason="no")
        rank = RankOutcome(0, Status.FAILED, subtests=(bad, skipped))
        result = play(merge([rank]))
        self.assertEqual([str(test).rpartition(" ")[2] for test, _ in result.failures], ["(x=1)"])
        self.assertEqual([reason for _, reason in result.skipped], ["no"])

    def test_leaks(self) -> None:
        """What a passing test left behind is a warning, at the test."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            play(replace(ranks(Status.PASSED), warnings=("left behind and ended: sleep",)))
        self.assertEqual([(w.category, w.filename) for w in caught], [(RankLeakWarning, __file__)])


class InterruptedTest(unittest.TestCase):
    """``interrupted``: the exception of a test whose ranks Ctrl-C ended."""

    def test_report(self) -> None:
        """It is KeyboardInterrupt itself and carries the outcome, in which no rank is to blame."""
        error = verdict.interrupted(Case("plain"), ranks(Status.ENDED, Status.ENDED))
        self.assertIs(type(error), KeyboardInterrupt)
        report = InterruptReport.of(error)
        assert report is not None
        self.assertEqual((report.outcome.status, report.outcome.root_cause), (Status.ENDED, None))
        self.assertIn("cause: interrupted", str(error))
        self.assertIsNone(InterruptReport.of(KeyboardInterrupt("no report")))


class LeftBehindTest(unittest.TestCase):
    """``left_behind``: lines about processes and state that a test left."""

    def test_lines(self) -> None:
        """A change is named once with its ranks, and none where a rank failed, which is replaced anyway."""
        dirty = [RankOutcome(n, Status.PASSED, left=("a thread",)) for n in (0, 1)]
        lines = verdict.left_behind(JobResult(tuple(dirty), leaked=("sleep (pid 7)",)))
        wanted = ("left behind and ended: sleep (pid 7)", "left changed in ranks 0, 1: a thread")
        self.assertEqual(lines, wanted)
        failed = replace(dirty[1], status=Status.FAILED, error=FAILED)
        self.assertEqual(verdict.left_behind(JobResult((dirty[0], failed))), ())


if __name__ == "__main__":
    unittest.main()
