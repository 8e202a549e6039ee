"""Tests which rank mode a test runs in."""

from __future__ import annotations

import unittest

from harness.ranks.modes import LAUNCHED, MODES, chosen_mode
from harness.settings import RANK_MODES, Settings

ALL = ("fresh", "pooled", "threads")


class ChosenModeTest(unittest.TestCase):
    """``chosen_mode``, by the class and the settings."""

    def test_table(self) -> None:
        """The mode is the one that is asked for if the class allows it, else the class's first one."""
        for allowed, wanted, mode in (
            (ALL, None, "fresh"),
            (ALL, "fresh", "fresh"),
            (ALL, "pooled", "pooled"),
            (ALL, "threads", "threads"),
            (ALL, "local", "fresh"),
            (("pooled",), None, "pooled"),
            (("pooled",), "fresh", "pooled"),
            (("threads", "local"), "fresh", "threads"),
            (("threads", "local"), "local", "local"),
        ):
            with self.subTest(allowed=allowed, wanted=wanted):
                self.assertEqual(chosen_mode(allowed, Settings(ranks=wanted)), mode)

    def test_ranks_that_somebody_else_started(self) -> None:
        """They take the place of ranks that a launcher would start, and of no others."""
        for allowed, wanted, mode in (
            (ALL, None, "external"),
            (ALL, "pooled", "external"),
            (ALL, "threads", "threads"),
            (("pooled",), "threads", "external"),
            (("local",), None, "local"),
        ):
            with self.subTest(allowed=allowed, wanted=wanted):
                self.assertEqual(chosen_mode(allowed, Settings(ranks=wanted, launcher="external")), mode)

    def test_every_mode_has_a_strategy(self) -> None:
        """There is something that starts the ranks of each mode that can be asked for or chosen."""
        self.assertEqual(set(MODES), {*RANK_MODES, "external"})
        self.assertLess(set(LAUNCHED), set(MODES))


if __name__ == "__main__":
    unittest.main()
