"""Tests how results are counted, and when a score is enough."""

from __future__ import annotations

import unittest

from tools.mutation import score
from tools.mutation.results import Result, Verdict
from tools.mutation.score import Score


def results(file: str, **counts: int) -> list[Result]:
    """So many results of each verdict of a file's mutants."""
    return [
        Result(f"{file}:{verdict}{n}", Verdict[verdict.upper()])
        for verdict, count in counts.items()
        for n in range(count)
    ]


class ScoreTest(unittest.TestCase):
    """``Score`` and its table."""

    def test_enough(self) -> None:
        """Rows of caught, survived, not executed, equivalent."""
        rows = [
            ((85, 15, 0, 0), True),
            ((84, 16, 0, 0), False),
            ((85, 15, 13, 50), True),
            ((85, 15, 14, 0), False),
            ((0, 0, 0, 9), True),
            ((0, 0, 1, 0), False),
        ]
        for counts, wanted in rows:
            with self.subTest(counts):
                self.assertIs(Score(*counts).enough, wanted)

    def test_words(self) -> None:
        found = [*results("a.py", caught=3, survived=1, equivalent=2), *results("b.py", not_executed=4)]
        self.assertEqual(
            str(score.total(found)),
            "3 of 4 on executed lines caught (75 %), "
            "4 on lines that no test executes (38 % of all), 2 equivalent",
        )
        self.assertEqual(
            score.table(found)[1:],
            [
                ("a.py", "4", "4", "3", "75 %", "75 %"),
                ("b.py", "4", "0", "0", "-", "0 %"),
                ("all", "8", "4", "3", "75 %", "38 %"),
            ],
        )
