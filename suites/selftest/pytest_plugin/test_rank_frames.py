"""Tests the frames that a debugger shows of a rank that has ended."""

from __future__ import annotations

import traceback
import unittest
from pathlib import Path

import pytest

from harness.outcomes import ErrorInfo, RankOutcome, Status, TestOutcome
from harness.pytest_plugin import rank_frames
from harness.ranks.exception_info import capture


def _inner() -> None:
    raise KeyError("inner")


def _with_a_cause() -> None:
    try:
        _inner()
    except KeyError as error:
        raise ValueError("outer") from error


def _fails() -> None:
    pytest.fail("told to")


def _info(function: object) -> ErrorInfo:
    try:
        function()  # type: ignore[operator]  # one of the above
    except BaseException as error:  # noqa: BLE001 - the exception of the table
        return capture(error)
    raise AssertionError("it raises")


class FramesTest(unittest.TestCase):
    """The frames that the text of a rank's traceback names."""

    def test_frames(self) -> None:
        """Files, functions, lines and their source, of the exception itself, up to the user's call."""
        for function, wanted in (
            (_inner, ["_inner"]),
            (_with_a_cause, ["_with_a_cause"]),
            (_fails, ["_fails"]),
        ):
            with self.subTest(function=function.__name__):
                trace = rank_frames.of_text(_info(function).traceback)
                frames = traceback.extract_tb(trace)
                self.assertEqual([frame.name for frame in frames][1:], wanted)
                for shown, number in traceback.walk_tb(trace):
                    self.assertEqual(shown.f_lineno, number)  # around which a debugger lists the source
                self.assertEqual({frame.filename for frame in frames}, {__file__})
                source = Path(__file__).read_text(encoding="utf-8").splitlines()
                for frame in frames:
                    assert frame.lineno is not None
                    self.assertEqual(frame.line, source[frame.lineno - 1].strip())

    def test_no_frames(self) -> None:
        """There are none where the text has none, and none of ranks that raised nothing."""
        self.assertIsNone(rank_frames.of_text("ValueError: x\n<no traceback: RecursionError>"))
        ranks = (RankOutcome(0, Status.FAILED, error=_info(_inner)), RankOutcome(1, Status.CRASHED))
        for cause, found in ((0, True), (1, False), (None, False)):
            outcome = TestOutcome(Status.FAILED, ranks, root_cause=cause, reason="")
            self.assertEqual(rank_frames.of_cause(outcome) is not None, found, cause)


if __name__ == "__main__":
    unittest.main()
