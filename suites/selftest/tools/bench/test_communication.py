"""Tests the benchmark of what recording costs: its table, and that both of its processes answer."""

from __future__ import annotations

import unittest

from tools.bench import communication
from tools.bench.communication import MODES, OPERATIONS


class CommunicationBench(unittest.TestCase):
    """The table, and the processes that measure."""

    def test_table(self) -> None:
        """Medians, and the median of the differences within a round, not the difference of medians."""
        rows = {"barrier": {"without": [1.0, 9.0, 2.0], "with": [4.0, 11.0, 7.0]}}
        self.assertEqual(communication.table(rows).rows, (("barrier", "2.0 us", "7.0 us", "+3.0 us"),))

    def test_measured(self) -> None:
        """Every operation has a number from each process in each round."""
        found = communication.measured(OPERATIONS, rounds=2, calls=3)
        self.assertEqual(list(found), list(OPERATIONS))
        for by_mode in found.values():
            self.assertEqual(
                {mode: len(numbers) for mode, numbers in by_mode.items()}, dict.fromkeys(MODES, 2)
            )
            self.assertTrue(all(number > 0 for numbers in by_mode.values() for number in numbers))


if __name__ == "__main__":
    unittest.main()
