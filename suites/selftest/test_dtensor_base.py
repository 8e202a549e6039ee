"""What the DTensor suites leave out in all rank modes but one: no choice of any argument altogether."""

from __future__ import annotations

import importlib
import itertools
import unittest
from collections.abc import Sequence

base = importlib.import_module("suites.spmd.dtensor_base")  # suites are not typed


class ThinnedTest(unittest.TestCase):
    """Combinations of as many choices a place as a row says."""

    def combinations(self, *choices: int) -> list[tuple[int, ...]]:
        """All of them."""
        return list(itertools.product(*map(range, choices)))

    def choices(self, combinations: Sequence[tuple[int, ...]]) -> set[tuple[int, int]]:
        """Each place with each choice that is found there."""
        return {choice for each in combinations for choice in enumerate(each)}

    def test_few_are_all_kept(self) -> None:
        for choices in ((3,), (4,), (3, 3), (2, 2, 2)):
            with self.subTest(choices):
                every = self.combinations(*choices)
                self.assertEqual(base.thinned(every), every)

    def test_each_choice_is_kept(self) -> None:
        for choices in ((4, 4), (3, 4), (4, 3), (5, 5), (3, 3, 3), (3, 2, 4), (2, 5, 3), (16, 3, 3)):
            with self.subTest(choices):
                every = self.combinations(*choices)
                kept = base.thinned(every)
                self.assertEqual(self.choices(kept), self.choices(every))
                self.assertLessEqual(set(kept), set(every))
                self.assertEqual(len(kept), len(set(kept)))
                self.assertLessEqual(len(kept), len(every) / 3 + 1)

    def test_what_is_there_counts(self) -> None:
        # As where combinations that need no communication are tried anyway.
        every = [each for each in self.combinations(4, 4) if each[0] != each[1]]
        self.assertEqual(self.choices(base.thinned(every)), self.choices(every))

    def test_two_places_are_not_bound_to_each_other(self) -> None:
        kept = base.thinned(self.combinations(16, 3, 3))
        self.assertEqual({each[1:] for each in kept}, set(self.combinations(3, 3)))


if __name__ == "__main__":
    unittest.main()
