"""Tests how much of the tests' time the files of a map are said to run."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from harness.impact.impact_map import ImpactMap
from tools import map_shares
from tools.map_shares import Share

A, B, C = "torch/a.py", "torch/b.py", "suites/c.py"
MAP = ImpactMap("2.13.0", {"x": frozenset({A, C}), "y": frozenset({A, B}), "z": frozenset({C})})
SECONDS = {"x": 1.0, "y": 3.0, "z": 4.0}


class SharesTest(unittest.TestCase):
    """``shares`` and ``text``, on a map of three tests."""

    def test_table(self) -> None:
        """A file's share is that of the tests that execute it, by their time; only torch's files count."""
        self.assertEqual(map_shares.shares(MAP, SECONDS), [Share(B, 1, 0.375), Share(A, 2, 0.5)])

    def test_text(self) -> None:
        """The lines name the median, the files below the goal, and the files that run most, largest first."""
        self.assertEqual(
            map_shares.text(MAP, {**SECONDS, "z": 12.0}).splitlines(),
            [
                "torch 2.13.0: 3 tests, 16 s, 2 files of torch",
                "median file: 1.5 tests, 21.9% of the time",
                "at most 25% of the time: 2 files (100%)",
                " 25.0%     2 tests  torch/a.py",
                " 18.8%     1 tests  torch/b.py",
            ],
        )

    def test_no_map(self) -> None:
        """Without a map it is a usage error."""
        with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stderr(io.StringIO()) as err:
            self.assertEqual(map_shares.main([str(Path(directory, "none"))]), 2)
        self.assertEqual(err.getvalue(), "map_shares: there is no map\n")


if __name__ == "__main__":
    unittest.main()
