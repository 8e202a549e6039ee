"""Tests the records of ranks and sub-tests that reports get of a multi-rank test."""

from __future__ import annotations

import unittest

from harness.communication_call import Call, Signature
from harness.outcomes import ErrorInfo, MergedSubtest, RankOutcome, Status, SubtestOutcome, TestOutcome
from harness.runner.worker_process.rank_records import rank_records, subtest_records

ERROR = ErrorInfo("ValueError", "3", "Traceback\nValueError: 3")


class RankRecordsTest(unittest.TestCase):
    """``rank_records``: one record for each rank."""

    def test_fields(self) -> None:
        """All that a report shows of a rank is in its record, and an error is its traceback."""
        call = Call(Signature("all_reduce", "0"), 1, 1, 1.0, ended_s=2.0)
        rank = RankOutcome(
            1,
            Status.ERROR,
            error=ERROR,
            exit_code=-9,
            duration_s=2.5,
            started_s=7.0,
            peak_memory=4096,
            stack="a stack",
            pid=77,
            log="/logs/rank1",
            calls=(call,),
        )
        passed, failed = rank_records(TestOutcome(Status.ERROR, (RankOutcome(0, Status.PASSED), rank)))
        self.assertEqual((passed.rank, passed.status, passed.error), (0, Status.PASSED, ""))
        self.assertEqual((failed.rank, failed.status, failed.error), (1, Status.ERROR, ERROR.traceback))
        self.assertEqual((failed.exit_code, failed.peak_memory, failed.pid), (-9, 4096, 77))
        self.assertEqual((failed.duration_s, failed.started_s), (2.5, 7.0))
        self.assertEqual((failed.stack, failed.log, failed.calls), ("a stack", "/logs/rank1", (call,)))
        self.assertEqual((passed.calls_made, failed.calls_made), (0, 1))
        (without,) = rank_records(TestOutcome(Status.PASSED, (rank,)), keep_calls=False)
        self.assertEqual((without.calls, without.calls_made), ((), 1))

    def test_output(self) -> None:
        """The output of every rank is kept, unless the test passed or was skipped."""
        ranks = (RankOutcome(0, Status.PASSED, output="printed"), RankOutcome(1, Status.PASSED, output="too"))
        for status in Status:
            dropped = status in (Status.PASSED, Status.SKIPPED)
            with self.subTest(status=status):
                outputs = [record.output for record in rank_records(TestOutcome(status, ranks))]
                self.assertEqual(outputs, ["", ""] if dropped else ["printed", "too"])


class SubtestRecordsTest(unittest.TestCase):
    """``subtest_records``: the sub-tests that did not pass."""

    def test_which(self) -> None:
        """Failed and skipped sub-tests have their ranks and text, and passed ones are left out."""
        params = (("x", "1"),)
        merged = (
            MergedSubtest(SubtestOutcome("ok", params, Status.PASSED), (0, 1)),
            MergedSubtest(SubtestOutcome("bad", params, Status.FAILED, ERROR), (1,)),
            MergedSubtest(SubtestOutcome("out", params, Status.SKIPPED, skip_reason="no GPU"), (0,)),
            MergedSubtest(SubtestOutcome("raised", params, Status.ERROR), (0,)),
        )
        records = subtest_records(TestOutcome(Status.ERROR, subtests=merged))
        self.assertEqual(
            [(r.description, r.status, r.details, r.ranks) for r in records],
            [
                ("[bad] (x=1)", Status.FAILED, ERROR.traceback, (1,)),
                ("[out] (x=1)", Status.SKIPPED, "no GPU", (0,)),
                ("[raised] (x=1)", Status.ERROR, "", (0,)),
            ],
        )

    def test_descriptions(self) -> None:
        """A sub-test is described as unittest prints it."""
        table: tuple[tuple[str | None, dict[str, object]], ...]
        table = ((None, {}), ("m", {}), ("", {}), (None, {"x": 1, "y": "a"}), ("m", {"x": 1}))
        for message, params in table:
            with self.subTest(message=message, params=params):
                given = tuple((name, repr(value)) for name, value in params.items())
                merged = MergedSubtest(SubtestOutcome(message, given, Status.FAILED), (0,))
                (record,) = subtest_records(TestOutcome(Status.FAILED, subtests=(merged,)))
                self.assertEqual(record.description, described_by_unittest(message, params))


def described_by_unittest(message: str | None, params: dict[str, object]) -> str:
    """Returns unittest's description of a failing sub-test, without the name of the test."""
    seen: list[str] = []

    class Result(unittest.TestResult):
        """Notes the names of sub-tests."""

        def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: object) -> None:
            """Notes the name without the test's."""
            seen.append(subtest.id().removeprefix(test.id()).strip())

    class Case(unittest.TestCase):
        """A test with one sub-test."""

        def runTest(self) -> None:
            """Fails in a sub-test."""
            with self.subTest(*([] if message is None else [message]), **params):
                self.fail()

    Case().run(Result())
    return seen[0]


if __name__ == "__main__":
    unittest.main()
