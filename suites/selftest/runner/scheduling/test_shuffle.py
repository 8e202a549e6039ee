"""Tests the order of a round's tests."""

from __future__ import annotations

import random
import unittest

from harness.runner.scheduling.shuffle import ordered
from harness.runner.scheduling.unit import of_id

UNITS = [of_id(f"m.T.test_{n:02}", "m") for n in range(20)]


class OrderedTest(unittest.TestCase):
    """``ordered``, which puts a round's tests in their order."""

    def test_discoverys(self) -> None:
        """Without a seed every round has the order of discovery."""
        for number in (1, 2):
            self.assertEqual(ordered(UNITS, None, number), UNITS)

    def test_the_first_round(self) -> None:
        """The first round's order for a seed never changes, because bug reports name seeds."""
        self.assertEqual(ordered(UNITS, 7, 1), random.Random(7).sample(UNITS, 20))

    def test_every_round_has_its_own(self) -> None:
        """Each round has an order of its own, which is the same every time."""
        orders = [[unit.id for unit in ordered(UNITS, 7, number)] for number in (1, 2, 3)]
        self.assertEqual(orders, [[unit.id for unit in ordered(UNITS, 7, number)] for number in (1, 2, 3)])
        self.assertEqual(len({tuple(order) for order in orders}), 3)
        for order in orders:
            self.assertEqual(sorted(order), [unit.id for unit in UNITS])


if __name__ == "__main__":
    unittest.main()
