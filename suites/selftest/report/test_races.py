"""Tests which tests of a run have a race, by their verdicts under seeds of delays."""

from __future__ import annotations

import unittest

from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.base import RunInfo
from harness.report.console_lines import closing_lines, failure_lines
from harness.report.races import Race, races
from harness.report.summary import summarise

BASE = "python run_tests.py --chaos 7 --slow"
GOOD, BAD = Status.PASSED, Status.FAILED


def record(status: Status, seed: int | None, test_id: str = "m.T.test", attempt: int = 1) -> TestRecord:
    extra = {} if seed is None else {"chaos": seed}
    repeat = 1 if seed is None else 1 + seed - 7
    return TestRecord(test_id, status, repeat=repeat, attempt=attempt, extra=extra)


class RacesTest(unittest.TestCase):
    """``races``: a pass and a failure under different seeds."""

    def test_table(self) -> None:
        for name, records, found in (
            ("both", [record(GOOD, 7), record(BAD, 8), record(Status.DEADLOCKED, 9)], ((7,), (8, 9))),
            ("failures only", [record(BAD, 7), record(BAD, 8)], None),
            ("passes only", [record(GOOD, 7), record(GOOD, 8)], None),
            ("no seeds", [record(GOOD, None), record(BAD, None)], None),
            ("one seed", [record(BAD, 7), record(GOOD, 7, attempt=2)], None),
            ("one of two seeds", [record(BAD, 7), record(GOOD, 7, attempt=2), record(GOOD, 8)], None),
            ("a skip", [record(Status.SKIPPED, 7), record(BAD, 8)], None),
            ("an interrupt", [record(GOOD, 7), record(Status.ENDED, 8)], None),
            ("other tests", [record(GOOD, 7), record(BAD, 8, "m.T.test_b")], None),
        ):
            with self.subTest(name):
                self.assertEqual(races(records), () if found is None else (Race("m.T.test", *found),))

    def test_what_is_said(self) -> None:
        """The end of a run names a seed of each kind, and a failure repeats under that of its round."""
        failed = record(BAD, 8)
        info = RunInfo(command=BASE)
        said = [line.text for line in closing_lines(
            summarise([record(GOOD, 7), failed], command=BASE), info, durations=0, verbosity=-1)]  # fmt: skip
        self.assertIn("-- races (1) ", "\n".join(said))
        self.assertIn(
            "  m.T.test: passes with --chaos 7 and fails with --chaos 8, so its verdict depends on when "
            "ranks come",
            said,
        )
        self.assertEqual(
            [line.text for line in failure_lines(failed, info)][-1],
            "reproduce: python run_tests.py --chaos 8 --slow m.T.test",
        )
        self.assertIn("rerun what failed: python run_tests.py --chaos 8 --slow m.T.test", said)


if __name__ == "__main__":
    unittest.main()
