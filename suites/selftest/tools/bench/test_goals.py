"""Tests which goals are judged, and how."""

import unittest

from tools.bench.goals import reached
from tools.bench.series import Cell, Series


class Reached(unittest.TestCase):
    """The function ``reached``, on given medians."""

    def _said(self, **medians: float) -> dict[str, bool]:
        cells = {
            "bare": Cell("test", 4, "bare"),
            "ours": Cell("test", 4, "forkserver"),
            "upstream": Cell("test", 4, "upstream"),
            "memory2": Cell("memory", 2, "forkserver"),
            "memory8": Cell("memory", 8, "forkserver"),
            "death": Cell("death-unseen", 4, "forkserver"),
        }
        measured = {cells[name]: Series([number]) for name, number in medians.items()}
        return {goal.text.split(":")[0]: goal.reached for goal in reached(measured)}

    def test_goals_without_numbers_are_not_judged(self) -> None:
        """A goal without a measurement is neither reached nor missed."""
        self.assertEqual(self._said(bare=1.0), {})

    def test_times_bare(self) -> None:
        """1.5 times the bare program reaches the goal, and more misses it."""
        self.assertEqual(self._said(bare=1.0, ours=1.5), {"4 ranks at most 1.5 x bare": True})
        self.assertEqual(self._said(bare=1.0, ours=1.6), {"4 ranks at most 1.5 x bare": False})

    def test_times_upstream(self) -> None:
        """Less than a hundred times faster than upstream misses the goal."""
        text = "4 ranks at least 100 x faster than upstream"
        self.assertEqual(self._said(ours=0.05, upstream=6.0), {text: True})
        self.assertEqual(self._said(ours=0.08, upstream=6.0), {text: False})

    def test_memory(self) -> None:
        """The goal for memory is judged by the memory of an added rank, not of the whole run."""
        self.assertEqual(self._said(memory2=100.0, memory8=244.0), {"at most 25 MB an added rank": True})
        self.assertEqual(self._said(memory2=100.0, memory8=256.0), {"at most 25 MB an added rank": False})

    def test_verdict_includes_the_grace(self) -> None:
        """The time to a verdict may contain the grace of one second that the peers get."""
        self.assertEqual(list(self._said(death=1.05).values()), [True])
        self.assertEqual(list(self._said(death=1.2).values()), [False])
