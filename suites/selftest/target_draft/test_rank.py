"""Tests what an attempt comes to on one rank; whole rounds are for ``test_rounds``."""

from __future__ import annotations

import unittest
from unittest import mock

import torch
import torch.distributed as dist

from harness.target_draft.capability import Place
from harness.target_draft.rank import MOST_SAID, attempt
from harness.target_draft.tries import Finding, Try


class AttemptTest(unittest.TestCase):
    """How a try ends that comes back."""

    def test_ends(self) -> None:
        """A wrong result, an exception of any kind with its first line, or a success."""
        place = Place(0, torch.device("cpu"), dist.HashStore())
        for raised, expected in (
            (None, Finding("right")),
            (AssertionError("2, and 3 is right"), Finding("wrong", "2, and 3 is right")),
            (RuntimeError("no tags\nat line 3"), Finding("refused", "RuntimeError: no tags")),
            (KeyError(), Finding("refused", "KeyError: ")),
            (
                ValueError("no <Op object at 0x7f18e1a8d430>"),
                Finding("refused", "ValueError: no <Op object>"),
            ),
        ):
            with self.subTest(raised=raised), mock.patch("harness.target_draft.capability.run") as run:
                run.side_effect = raised
                self.assertEqual(attempt(Try(capability="TAGS"), place), expected)

    def test_long_words(self) -> None:
        """What is kept of an exception is bounded."""
        place = Place(0, torch.device("cpu"), dist.HashStore())
        with mock.patch("torch.distributed.broadcast", side_effect=RuntimeError("x" * 1000)):
            finding = attempt(Try("broadcast", "int8"), place)
        self.assertEqual((finding.end, len(finding.said)), ("refused", MOST_SAID))


if __name__ == "__main__":
    unittest.main()
