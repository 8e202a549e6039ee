"""Tests whether what is selected for a fault's files has the tests that execute the fault."""

from __future__ import annotations

import unittest

from harness.impact.impact_map import ImpactMap
from tools.fault_selection import fault_selection

A, B = "torch/a.py", "torch/b.py"
MAP = ImpactMap("2.13.0", {"x": frozenset({A}), "y": frozenset({B}), "z": frozenset({A, B})})
TESTS = ("x", "y", "z")


class FaultSelectionTest(unittest.TestCase):
    """``fault_selection``, on a map of three tests."""

    def test_table(self) -> None:
        """All tests run where the map has no file; else those that execute one."""
        for files, executing, selected, missed in (
            ((A,), ("x", "z"), {"x", "z"}, ()),
            ((A,), ("x", "y"), {"x", "z"}, ("y",)),
            ((A, B), ("x", "y"), {"x", "y", "z"}, ()),
            ((), ("x",), None, ()),
            (("torch/c.py",), ("x",), None, ()),
            ((B,), ("x", "left out"), {"y", "z"}, ("x",)),
        ):
            with self.subTest(files=files, executing=executing):
                found = fault_selection("f", files, MAP, TESTS, executing)
                self.assertEqual((found.tests, found.missed), (selected, missed))

    def test_text(self) -> None:
        """The line says how many are selected and how many of those that are to be; each other has a line."""
        text = fault_selection("f", (A,), MAP, TESTS, ("x", "y")).text
        self.assertEqual(
            text, "f (torch/a.py): 2 tests selected, among them 1 of 2 that execute it\n    missed: y"
        )
        text = fault_selection("f", (), MAP, TESTS, ("x", "y")).text
        self.assertEqual(text, "f (no file of Python): all tests selected, among them 2 of 2 that execute it")


if __name__ == "__main__":
    unittest.main()
