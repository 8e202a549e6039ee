"""Series: medians, quartiles, when to measure again, memory by rank."""

import unittest

from tools.bench.series import Cell, Series, median, names, per_added_rank, ratio, sizes, too_dear


class Statistics(unittest.TestCase):
    """What a series says of its values."""

    def test_without_values_there_is_nothing_to_say(self) -> None:
        """Neither median nor quartiles."""
        self.assertIsNone(Series(errors=["lost"]).median)
        self.assertIsNone(Series().quartiles)

    def test_quartiles_of_few_values_are_the_extremes(self) -> None:
        """Three values have no quartiles worth the name."""
        self.assertEqual(Series([3.0, 1.0, 2.0]).quartiles, (1.0, 3.0))
        self.assertEqual(Series([1.0, 2.0, 3.0, 4.0, 5.0]).quartiles, (1.5, 4.5))

    def test_one_outlier_does_not_move_the_median(self) -> None:
        """Why medians: the machine is shared."""
        self.assertEqual(Series([1.0, 1.1, 900.0]).median, 1.1)


class Wants(unittest.TestCase):
    """When a cell is measured again."""

    def test_first_value_is_wanted_whatever_it_costs(self) -> None:
        """A budget of nothing still gives one value."""
        self.assertTrue(Series().wants(rounds=1, budget_s=0.0))

    def test_rounds_count_errors_too(self) -> None:
        """A contender that always fails is not asked for ever."""
        self.assertFalse(Series([1.0], ["lost"]).wants(rounds=2, budget_s=99.0))
        self.assertTrue(Series([1.0], ["lost"]).wants(rounds=3, budget_s=99.0))

    def test_stops_where_one_more_would_break_the_budget(self) -> None:
        """Two of 3 s fit in 9 s with a third, not in 8 s."""
        spent = Series([3.0, 3.0], spent_s=6.0)
        self.assertTrue(spent.wants(rounds=9, budget_s=9.0))
        self.assertFalse(spent.wants(rounds=9, budget_s=8.0))


class TooDear(unittest.TestCase):
    """When a larger world size is left out."""

    def test_only_where_a_smaller_size_broke_the_budget_at_once(self) -> None:
        """Per value: many cheap ones are no reason, nor is another contender's cost."""
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
    """Numbers out of everything that was measured."""

    def setUp(self) -> None:
        """Two contenders, one without memory at a second size."""
        self.measured = {
            Cell("test", 4, "b"): Series([2.0, 4.0]),
            Cell("test", 2, "a"): Series([1.0]),
            Cell("memory", 2, "a"): Series([100.0]),
            Cell("memory", 8, "a"): Series([130.0]),
            Cell("memory", 2, "b"): Series([100.0]),
            Cell("memory", 8, "b"): Series(errors=["lost"]),
        }

    def test_memory_of_an_added_rank_is_the_slope(self) -> None:
        """30 MB more for 6 ranks more; no slope through one point."""
        self.assertEqual(per_added_rank(self.measured, "a"), 5.0)
        self.assertIsNone(per_added_rank(self.measured, "b"))

    def test_absent_cells_are_none(self) -> None:
        """So are ratios with them."""
        self.assertEqual(median(self.measured, "test", 4, "b"), 3.0)
        self.assertIsNone(median(self.measured, "test", 32, "b"))
        self.assertIsNone(ratio(None, 1.0))
        self.assertIsNone(ratio(1.0, None))
        self.assertEqual(ratio(3.0, 2.0), 1.5)

    def test_sizes_and_names_are_what_was_measured(self) -> None:
        """In order; a contender that took no part has no column."""
        self.assertEqual(sizes(self.measured), [2, 4])
        self.assertEqual(names(self.measured, ["c", "b", "a"]), ["b", "a"])
