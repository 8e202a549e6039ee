"""Tests what the DTensor suites choose of combinations of arguments: ``thinned``, and a rank mode's part."""

from __future__ import annotations

import importlib
import itertools
import os
import unittest
from collections.abc import Sequence
from typing import Any
from unittest import mock

from harness.settings import EnvVar

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


class SharesTest(unittest.TestCase):
    """What each rank mode takes of the same combinations, asked for twice."""

    EVERY = tuple(range(10))

    def cases(self, *modes: str) -> list[Any]:
        """Returns an instance of each case that bodies become in these modes."""

        class Some(base.Bodies):  # type: ignore[misc, name-defined]  # the suites are not type-checked
            def test(self) -> None: ...

        scope: dict[str, Any] = {}
        base.in_rank_modes(scope, Some, modes=modes)
        return [case("test") for case in scope.values()]

    def taken(self, cases: Sequence[Any], device_type: str = "cpu", slow: str = "0") -> list[list[list[int]]]:
        """Returns what each case takes at each time, with a target on that device."""
        with (
            mock.patch.dict(os.environ, {EnvVar.SLOW: slow}),
            mock.patch.object(base, "current", return_value=mock.Mock(device_type=device_type)),
        ):
            return [[case.some(self.EVERY) for _ in range(2)] for case in cases]

    def test_each_is_tried_once(self) -> None:
        """Together the modes take each combination once, another part of them at each time."""
        taken = self.taken(self.cases(*base.USUAL))
        for both in zip(*taken, strict=True):
            self.assertEqual(sorted(each for mode in both for each in mode), list(self.EVERY))
            self.assertEqual({len(mode) for mode in both}, {3, 4})
        for first, second in taken:
            self.assertNotEqual(set(first), set(second))

    def test_a_mode_alone_takes_all(self) -> None:
        (case,) = self.taken(self.cases("OnPooledRanks"))
        self.assertEqual([set(each) for each in case], [{*self.EVERY}] * 2)

    def test_all_are_wanted(self) -> None:
        """Where slow tests are wanted, and on a target that only one of the modes is on."""
        cases = self.cases(*base.USUAL)
        for wanted in ({"slow": "1"}, {"device_type": "cuda"}):
            with self.subTest(**wanted):
                for mode in self.taken(cases, **wanted):
                    self.assertEqual([tuple(each) for each in mode], [self.EVERY] * 2)


if __name__ == "__main__":
    unittest.main()
