"""Tests the rules for a rank that reports and then hangs, crashes or is ended."""

from __future__ import annotations

import unittest

from harness.outcomes import EXIT_SKIPPED, RankOutcome, Status
from harness.ranks.deadlines import EndReason
from harness.ranks.exit_rules import HUNG_AT_EXIT, ended_as, exited_wrongly, hung_at_exit


class HungAtExitTest(unittest.TestCase):
    """``hung_at_exit``: a rank that reported and did not leave."""

    def test_cause(self) -> None:
        """A rank that had gone well has timed out; one that had failed keeps its status and gets a note."""
        for status, expected in (
            (Status.PASSED, Status.TIMED_OUT),
            (Status.SKIPPED, Status.TIMED_OUT),
            (Status.FAILED, Status.FAILED),
            (Status.ERROR, Status.ERROR),
        ):
            with self.subTest(status=status):
                outcome = hung_at_exit(RankOutcome(3, status))
                self.assertEqual((outcome.rank, outcome.status, outcome.phase), (3, expected, "exit"))
                self.assertEqual(outcome.note, HUNG_AT_EXIT if expected is status else "")

    def test_note(self) -> None:
        """The note of a failed rank is added to the one that it had."""
        outcome = hung_at_exit(RankOutcome(0, Status.FAILED, note="first"))
        self.assertEqual(outcome.note, f"first; {HUNG_AT_EXIT}")


class LeftWronglyTest(unittest.TestCase):
    """``exited_wrongly``: the exit code of a rank that reported."""

    def test_table(self) -> None:
        """A rank that passed or skipped has to end with its own code, unless it was told to end."""
        for status, code, wrongly in (
            (Status.PASSED, 0, False),
            (Status.PASSED, None, False),
            (Status.PASSED, 1, True),
            (Status.PASSED, -11, True),
            (Status.PASSED, EXIT_SKIPPED, True),
            (Status.SKIPPED, EXIT_SKIPPED, False),
            (Status.SKIPPED, 0, False),
            (Status.SKIPPED, -9, True),
            (Status.FAILED, -11, False),
            (Status.ERROR, 1, False),
        ):
            with self.subTest(status=status, code=code):
                report = RankOutcome(0, status)
                self.assertEqual(exited_wrongly(report, code, ended_by_supervisor=False), wrongly)
                self.assertFalse(exited_wrongly(report, code, ended_by_supervisor=True))


class EndedAsTest(unittest.TestCase):
    """``ended_as``: the status of a rank that the supervisor ended."""

    def test_table(self) -> None:
        """Only a rank that reached a deadline of its own has timed out; the others are collateral."""
        expected = {EndReason.TIMEOUT: Status.TIMED_OUT, EndReason.EXIT: Status.TIMED_OUT}
        for why in EndReason:
            with self.subTest(why=why):
                self.assertEqual(ended_as(why), expected.get(why, Status.ENDED))
        self.assertIsNone(ended_as(None))


if __name__ == "__main__":
    unittest.main()
