"""Tests where the suites are found: beside the package, or below it in a wheel."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from harness.runner.selection.suites_root import suites_root


class SuitesRootTest(unittest.TestCase):
    """The directory that holds ``suites/``."""

    def test_of_a_checkout(self) -> None:
        """It is that of this tree, which has this file."""
        self.assertEqual(suites_root(), Path(__file__).resolve().parents[4])

    def test_of_a_wheel(self) -> None:
        """It is ``bundled`` below the package where that is there, and beside the package before."""
        with tempfile.TemporaryDirectory() as directory:
            package = Path(directory, "harness")
            package.mkdir()
            self.assertEqual(suites_root(package), Path(directory))
            (package / "bundled").mkdir()
            self.assertEqual(suites_root(package), package / "bundled")


if __name__ == "__main__":
    unittest.main()
