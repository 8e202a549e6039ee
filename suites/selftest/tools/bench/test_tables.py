"""Tests the tables of measurements: their rows, ratios and units."""

import unittest

from tools.bench.contenders import KEPT, TITLES
from tools.bench.series import Cell, Series
from tools.bench.tables import kept, medians, memory, seconds, spread


class Rows(unittest.TestCase):
    """The rows of the tables."""

    def setUp(self) -> None:
        """A run of several kinds, in which upstream has only an error for the time to a verdict."""
        self.measured = {
            Cell("test", 2, "bare"): Series([0.02]),
            Cell("test", 2, "forkserver"): Series([0.025]),
            Cell("test", 2, "upstream"): Series([3.0]),
            Cell("memory", 2, "forkserver"): Series([100.0]),
            Cell("memory", 8, "forkserver"): Series([160.0]),
            Cell("death-seen", 4, "forkserver"): Series([1.02]),
            Cell("death-seen", 4, "upstream"): Series(errors=["the test passed"]),
        }

    def test_each_row_has_all_columns(self) -> None:
        """Each world size, memory and each death have a row, with a dash for a missing value."""
        table = medians(self.measured)
        self.assertEqual(
            table.heading, ("measured", "bare program", "fork server", "upstream", "of bare", "of upstream")
        )
        self.assertEqual(
            table.rows,
            (
                ("one test, 2 ranks", "20.0 ms", "25.0 ms", "3.00 s", "1.25 x", "1/120"),
                ("memory per added rank", "-", "10.0 MB", "-", "", ""),
                ("rank killed, peers in all_reduce: time to verdict", "-", "1.02 s", "-", "", ""),
            ),
        )

    def test_without_a_contender_there_are_no_ratios_to_it(self) -> None:
        """A contender that was not measured has neither a column nor ratios."""
        table = medians({Cell("test", 2, "forkserver"): Series([0.025])})
        self.assertEqual(table.rows, (("one test, 2 ranks", "25.0 ms", "", ""),))

    def test_spread_tells_runs_and_errors(self) -> None:
        """The table of the spread has a row for each cell, with the numbers of values and errors."""
        rows = spread(self.measured).rows
        self.assertEqual(rows[0], ("test", "2", "bare program", "20.0 ms", "20.0 ms .. 20.0 ms", "1", ""))
        self.assertEqual(rows[-1], ("death-seen", "4", "upstream", "-", "-", "0", "1"))

    def test_units(self) -> None:
        """Durations below one second are shown in milliseconds."""
        self.assertEqual((seconds(0.0123), seconds(51.0), memory(5.25)), ("12.3 ms", "51.00 s", "5.2 MB"))

    def test_every_contender_has_a_title(self) -> None:
        """Every contender has a title, and is either of fresh or of kept ranks."""
        fresh = {"bare", "forkserver", "spawn", "upstream"}
        self.assertEqual(set(TITLES), fresh | set(KEPT))
        self.assertFalse(fresh & set(KEPT))

    def test_kept_ranks_have_a_table_of_their_own(self) -> None:
        """Contenders of kept ranks have a table of their own and no rows in the other one."""
        measured = {
            Cell("class-start", 2, "pooled"): Series([0.03]),
            Cell("kept-test", 2, "pooled"): Series([0.0005]),
        }
        self.assertEqual(kept(measured).heading, ("measured", "pooled"))
        self.assertEqual([row[1] for row in kept(measured).rows], ["30.0 ms", "0.50 ms"])
        self.assertEqual(medians(measured).rows, ())
