"""Tests the table of what a test costs over several hosts."""

from __future__ import annotations

import unittest

from tools.bench.over_hosts import table


class TableTest(unittest.TestCase):
    """What ``table`` makes of seconds."""

    def test_medians(self) -> None:
        """Each cell has the median of its values and its ratio to one host."""
        shown = table({(1, 2): [0.1, 0.2, 9.0], (2, 2): [0.3, 0.3, 0.5], (1, 4): [1.0], (2, 4): [0.5]})
        self.assertEqual(shown.heading, ("ranks", "1 host", "2 hosts"))
        self.assertEqual(
            shown.rows,
            (("2", "200 ms (1.00)", "300 ms (1.50)"), ("4", "1000 ms (1.00)", "500 ms (0.50)")),
        )


if __name__ == "__main__":
    unittest.main()
