"""Tests what pytest shows of an error of the harness: its lines, and the hint for a debugger."""

from __future__ import annotations

import unittest

import pytest

from harness.errors import LaunchError, RankError, RankFailure
from harness.outcomes import RankOutcome, Status, TestOutcome
from harness.pytest_plugin.failure_report import SECTION, debugger_hint, longrepr, without_rank_sections


def outcome(cause: int | None) -> TestOutcome:
    """Returns the outcome of a test that failed."""
    ranks = (RankOutcome(0, Status.PASSED), RankOutcome(1, Status.FAILED))
    return TestOutcome(Status.FAILED, ranks, root_cause=cause, reason="rank 1 failed: no")


class TextTest(unittest.TestCase):
    """The text of an error, and what stands around it."""

    def shown(self, error: BaseException) -> str | None:
        """Returns the text that pytest prints."""
        try:
            raise error
        except BaseException:  # noqa: BLE001 - the exception of the table
            shown = longrepr(error, pytest.ExceptionInfo.from_current())
        return None if shown is None else str(shown)

    def test_text_alone(self) -> None:
        """The text with its notes, without frames; nothing for errors of others."""
        failure = RankFailure("first\n  second", outcome(1))
        vars(failure)["__notes__"] = ["seed 1"]  # as add_note does from Python 3.11
        self.assertEqual(self.shown(failure), "first\n  second\nseed 1")
        self.assertEqual(self.shown(LaunchError("no process")), "no process")
        self.assertIsNone(self.shown(ValueError("x")))

    def test_hint(self) -> None:
        """It names the rank that failed first, and only for tests whose ranks ran."""
        for cause, said in (
            (1, "rank 1, which failed first: --pdb-rank 1"),
            (None, "for a debugger in rank 0: --pdb-rank 0"),
        ):
            self.assertIn(said, str(debugger_hint(RankError("x", outcome(cause)), "--pdb-rank")))
        self.assertIsNone(debugger_hint(RankError("x"), "--pdb-rank"))
        self.assertIsNone(debugger_hint(ValueError("x"), "--pdb-rank"))

    def test_sections(self) -> None:
        """Only the sections of ranks go."""
        kept = ("Captured stdout call", "x")
        self.assertEqual(without_rank_sections([(f"{SECTION}0 call", "y"), kept]), [kept])


if __name__ == "__main__":
    unittest.main()
