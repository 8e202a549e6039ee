"""Tests ``thinned``, which chooses the combinations of arguments for the tests of every rank mode."""

from __future__ import annotations

import importlib
import itertools
import unittest
from collections.abc import Sequence

base = importlib.import_module("suites.spmd.dtensor_base")  # the suites are not type-checked


class ThinnedTest(unittest.TestCase):
    """Combinations that are kept; every row of a table has the number of choices for each argument."""

    def combinations(self, *choices: int) -> list[tuple[int, ...]]:
        """Returns every combination of so many choices for each argument."""
        return list(itertools.product(*map(range, choices)))

    def choices(self, combinations: Sequence[tuple[int, ...]]) -> set[tuple[int, int]]:
        """Returns all pairs of an argument's position and a choice that it has in some combination."""
        return {choice for each in combinations for choice in enumerate(each)}

    def test_few_are_all_kept(self) -> None:
        """If there are few combinations, all of them are kept."""
        for choices in ((3,), (4,), (3, 3), (2, 2, 2)):
            with self.subTest(choices):
                every = self.combinations(*choices)
                self.assertEqual(base.thinned(every), every)

    def test_each_choice_is_kept(self) -> None:
        """Every choice of every argument is in some kept combination, and about a third is kept at most."""
        for choices in ((4, 4), (3, 4), (4, 3), (5, 5), (3, 3, 3), (3, 2, 4), (2, 5, 3), (16, 3, 3)):
            with self.subTest(choices):
                every = self.combinations(*choices)
                kept = base.thinned(every)
                self.assertEqual(self.choices(kept), self.choices(every))
                self.assertLessEqual(set(kept), set(every))
                self.assertEqual(len(kept), len(set(kept)))
                self.assertLessEqual(len(kept), len(every) / 3 + 1)

    def test_part_of_the_combinations(self) -> None:
        """Every choice is kept also if some combinations, those that need no communication, are absent."""
        every = [each for each in self.combinations(4, 4) if each[0] != each[1]]
        self.assertEqual(self.choices(base.thinned(every)), self.choices(every))

    def test_every_pair_of_choices(self) -> None:
        """Two arguments of three choices meet in every pair, so that thinning does not couple them."""
        kept = base.thinned(self.combinations(16, 3, 3))
        self.assertEqual({each[1:] for each in kept}, set(self.combinations(3, 3)))


if __name__ == "__main__":
    unittest.main()
