"""Tests the table of what a test costs over several hosts."""

from __future__ import annotations

import unittest

from tools.bench.over_hosts import Sample, table


class TableTest(unittest.TestCase):
    """What ``table`` makes of seconds."""

    def test_medians(self) -> None:
        """Each cell has the medians of its samples, and the ratio of its seconds to the first way's."""
        shown = table(
            {
                ("1 host", 2): [
                    Sample(0.1, 0.2, 9.0, 30),
                    Sample(0.2, 0.2, 10.0, 30),
                    Sample(9.0, 0.3, 11.0, 40),
                ],
                ("threads", 2): [Sample(0.3, 0.1, 1.0, 20)],
                ("1 host", 4): [Sample(2.0, 3.0, 20.0, 60)],
                ("threads", 1024): [Sample(0.5, 0.4, 99.0, 2000)],
            }
        )
        self.assertEqual(shown.heading, ("ranks", "1 host", "threads"))
        self.assertEqual(
            shown.rows,
            (
                ("2", "200 ms (1.00), 0.20 s, 10 MB, 30", "300 ms (1.50), 0.10 s, 1 MB, 20"),
                ("4", "2.00 s (1.00), 3.00 s, 20 MB, 60", r"\-"),
                ("1024", r"\-", "500 ms, 0.40 s, 99 MB, 2000"),
            ),
        )


if __name__ == "__main__":
    unittest.main()
