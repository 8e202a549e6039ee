"""Tests what an error suggests in place of an unknown word."""

from __future__ import annotations

import unittest

from harness.configuration.similar import perhaps, similar


class SimilarTest(unittest.TestCase):
    """Words that are like one that is unknown."""

    def test_table(self) -> None:
        """The most similar comes first, at most two, and none that are far off."""
        for word, known, close in (
            ("timout", ["timeout", "slots", "reruns"], ["timeout"]),
            ("abcd", ["abce", "abcf", "abcg"], 2),
            ("x", ["timeout"], []),
            ("timeout", [], []),
        ):
            with self.subTest(word, known=known):
                found = similar(word, known)
                self.assertEqual(len(found) if isinstance(close, int) else found, close)

    def test_message(self) -> None:
        """The end of a message asks, or says what else to do."""
        self.assertEqual(perhaps("job", ["jobs"], "see --help"), "; did you mean jobs?")
        self.assertEqual(perhaps("zzz", ["jobs"], "see --help"), "; see --help")


if __name__ == "__main__":
    unittest.main()
