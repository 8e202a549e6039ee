"""Tests which processes can run tests together, as a table of differences."""

from __future__ import annotations

import platform
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from harness.ranks.external.arrival import TOKEN, Arrival, from_text, own_arrival, refusal, to_text
from harness.ranks.external.unittest_run import UnittestRun
from suites.selftest.runner import runs

ONE = Arrival(0, "tn1", "3.11.2", "2.13.0", {"harness": "a", "m": "b"}, ("m.T.test_a", "m.T.test_b"))


class RefusalTest(unittest.TestCase):
    """Rank 0, rank 1 like it, and a rank 2 that differs."""

    def refused(self, **fields: Any) -> str | None:
        """Why rank 2 with these fields is refused."""
        third = replace(ONE, rank=2, **fields)
        return refusal([ONE, replace(ONE, rank=1), third], "/tmp/x")

    def test_differences(self) -> None:
        """Each difference is one line that names ranks, hosts and both sides."""
        table: tuple[tuple[dict[str, Any], str | None], ...] = (
            ({}, None),
            ({"host": "tn2"}, None),
            ({"tests": ()}, None),
            ({"sources": {"harness": "a", "other": "c"}}, None),
            (
                {"torch": "2.12.1"},
                "ranks 0 and 2 (on tn1) cannot work together: torch 2.13.0 and 2.12.1",
            ),
            (
                {"host": "tn2", "python": "3.12.1"},
                "ranks 0 and 2 (on tn1 and tn2) cannot work together: Python 3.11.2 and 3.12.1",
            ),
            (
                {"sources": {"harness": "x", "m": "b"}},
                "ranks 0 and 2 (on tn1) cannot work together: the source of harness differs",
            ),
            (
                {"tests": ("m.T.test_a",)},
                "ranks 0 and 2 (on tn1) cannot work together: rank 0 runs m.T.test_b, and rank 2 does not",
            ),
            (
                {"tests": (*ONE.tests, "m.T.test_c")},
                "ranks 0 and 2 (on tn1) cannot work together: rank 2 runs m.T.test_c, and rank 0 does not",
            ),
            (
                {"tests": ONE.tests[::-1]},
                "ranks 0 and 2 (on tn1) cannot work together: they run the same tests in another order",
            ),
            (
                {"host": "tn2", "sees_directory": False},
                "rank 2 on tn2 does not see rank 0's /tmp/x: set TMPDIR to a directory that all hosts share",
            ),
        )
        for fields, said in table:
            with self.subTest(fields):
                self.assertEqual(self.refused(**fields), said)

    def test_text(self) -> None:
        """An arrival is the same after it has travelled as text."""
        self.assertEqual(from_text(to_text(ONE)), ONE)

    def test_own(self) -> None:
        """A process tells its versions, tests and sources; another token is another directory."""
        directory = runs.new_directory(self)
        (directory / TOKEN).write_text("123")
        for token, place, sees in (
            ("123", directory, True),
            ("9", directory, False),
            ("1", Path("/no"), False),
        ):
            with self.subTest(token=token, place=place):
                told = own_arrival(1, UnittestRun(case=self), str(place), token)
                self.assertEqual(told.sees_directory, sees)
        self.assertEqual((told.python, told.torch), (platform.python_version(), torch.__version__))
        self.assertEqual(told.tests, (self.id(),))
        self.assertIn(__name__, told.sources)


if __name__ == "__main__":
    unittest.main()
