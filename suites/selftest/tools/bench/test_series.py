"""Tests series of values: medians, quartiles, when to measure again, and the memory of an added rank."""

import unittest

from tools.bench.series import Cell, Series, median, names, per_added_rank, ratio, sizes, too_dear


class Statistics(unittest.TestCase):
    """The median and the quartiles of a series."""

    def test_without_values_there_is_nothing_to_say(self) -> None:
        """A series without values has neither a median nor quartiles."""
        self.assertIsNone(Series(errors=["lost"]).median)
        self.assertIsNone(Series().quartiles)

    def test_quartiles_of_few_values_are_the_extremes(self) -> None:
        """The quartiles of three values are the smallest and the largest."""
        self.assertEqual(Series([3.0, 1.0, 2.0]).quartiles, (1.0, 3.0))
        self.assertEqual(Series([1.0, 2.0, 3.0, 4.0, 5.0]).quartiles, (1.5, 4.5))

    def test_one_outlier_does_not_move_the_median(self) -> None:
        """One outlier, as on a shared machine, does not move the median."""
        self.assertEqual(Series([1.0, 1.1, 900.0]).median, 1.1)


class Wants(unittest.TestCase):
    """When a cell is measured again."""

    def test_first_value_is_wanted_whatever_it_costs(self) -> None:
        """A cell is measured once even with a budget of 0."""
        self.assertTrue(Series().wants(rounds=1, budget_s=0.0))

    def test_rounds_count_errors_too(self) -> None:
        """Errors count as rounds, so that a contender which always fails is not asked forever."""
        self.assertFalse(Series([1.0], ["lost"]).wants(rounds=2, budget_s=99.0))
        self.assertTrue(Series([1.0], ["lost"]).wants(rounds=3, budget_s=99.0))

    def test_stops_where_one_more_would_break_the_budget(self) -> None:
        """After two values of 3 s each, a third is wanted within a budget of 9 s and not within 8 s."""
        spent = Series([3.0, 3.0], spent_s=6.0)
        self.assertTrue(spent.wants(rounds=9, budget_s=9.0))
        self.assertFalse(spent.wants(rounds=9, budget_s=8.0))


class TooDear(unittest.TestCase):
    """When a larger world size is left out."""

    def test_only_where_a_smaller_size_broke_the_budget_at_once(self) -> None:
        """What counts is the cost of one value: neither many cheap values nor another contender's cost."""
        measured = {
            Cell("test", 4, "a"): Series([30.0], spent_s=30.0),
            Cell("test", 4, "b"): Series([9.0] * 9, spent_s=81.0),
        }
        self.assertTrue(too_dear(measured, Cell("test", 8, "a"), 20.0))
        self.assertFalse(too_dear(measured, Cell("test", 8, "a"), 40.0))
        self.assertFalse(too_dear(measured, Cell("test", 2, "a"), 20.0))
        self.assertFalse(too_dear(measured, Cell("test", 8, "b"), 20.0))
        self.assertFalse(too_dear(measured, Cell("memory", 8, "a"), 20.0))


class Reading(unittest.TestCase):
    """The functions that read numbers out of all that was measured."""

    def setUp(self) -> None:
        """Two contenders, one of which has memory at one world size only."""
        self.measured = {
            Cell("test", 4, "b"): Series([2.0, 4.0]),
            Cell("test", 2, "a"): Series([1.0]),
            Cell("memory", 2, "a"): Series([100.0]),
            Cell("memory", 8, "a"): Series([130.0]),
            Cell("memory", 2, "b"): Series([100.0]),
            Cell("memory", 8, "b"): Series(errors=["lost"]),
        }

    def test_memory_of_an_added_rank_is_the_slope(self) -> None:
        """The memory of an added rank is the slope over two world sizes, and None with only one."""
        self.assertEqual(per_added_rank(self.measured, "a"), 5.0)
        self.assertIsNone(per_added_rank(self.measured, "b"))

    def test_absent_cells_are_none(self) -> None:
        """A missing cell has no median, and a ratio with it is None."""
        self.assertEqual(median(self.measured, "test", 4, "b"), 3.0)
        self.assertIsNone(median(self.measured, "test", 32, "b"))
        self.assertIsNone(ratio(None, 1.0))
        self.assertIsNone(ratio(1.0, None))
        self.assertEqual(ratio(3.0, 2.0), 1.5)

    def test_sizes_and_names_are_what_was_measured(self) -> None:
        """Sizes and names are those that were measured, in order, without contenders that were not."""
        self.assertEqual(sizes(self.measured), [2, 4])
        self.assertEqual(names(self.measured, ["c", "b", "a"]), ["b", "a"])
