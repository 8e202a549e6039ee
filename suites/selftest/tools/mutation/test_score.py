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
            "3 of 4 on executed lines caught (75 %, 95 % sure: 30-95 %), "
            "4 on lines that no test executes (38 % of all), 2 equivalent",
        )
        self.assertEqual(
            score.table(found)[1:],
            [
                ("a.py", "4", "4", "3", "75 %", "30-95 %", "75 %"),
                ("b.py", "4", "0", "0", "-", "-", "0 %"),
                ("all", "8", "4", "3", "75 %", "30-95 %", "38 %"),
            ],
        )

    def test_directories(self) -> None:
        """A mutated directory has a row for its files; a file that is mutated by itself has no other."""
        found = [
            *results("torch/distributed/tensor/_api.py", caught=3),
            *results("torch/distributed/tensor/parallel/loss.py", caught=1, survived=1),
            *results("torch/distributed/utils.py", caught=2),
        ]
        rows = {row[0]: row[1:4] for row in score.table(found)[4:]}
        self.assertEqual(rows, {"torch/distributed/tensor/": ("5", "5", "4"), "all": ("7", "7", "6")})

    def test_interval(self) -> None:
        """Rows of caught and of all, beside printed tables of Wilson's interval."""
        rows = [((12, 13), "67-99 %"), ((0, 10), "0-28 %"), ((10, 10), "72-100 %"), ((85, 100), "77-91 %")]
        for counts, words in rows:
            with self.subTest(counts):
                self.assertEqual(score.interval(*counts), words)
