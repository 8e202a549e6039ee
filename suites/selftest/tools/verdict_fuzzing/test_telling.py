"""Tests the lines by which a driver tells where it is."""

from __future__ import annotations

import unittest

from tools.verdict_fuzzing import telling


class LinesTest(unittest.TestCase):
    """``lines``: what can be read while the driver goes on."""

    def test_a_line_that_is_being_written(self) -> None:
        """A long line is written in pieces, and is read when its end is there."""
        for text, whole in (
            ("", []),
            ("7", []),
            ("7\n", ["7"]),
            ('7\n7 {"verd', ["7"]),
            ("7\n8\n", ["7", "8"]),
        ):
            with self.subTest(text):
                self.assertEqual(telling.lines(text), whole)


if __name__ == "__main__":
    unittest.main()
