"""Tests which parts are of one run, as a table of what may differ and what may not."""

from __future__ import annotations

import unittest
from typing import Any

from harness.errors import UsageError
from harness.merge.agreement import check, difference
from suites.selftest.merge.samples import halves, part, record


class DifferenceTest(unittest.TestCase):
    """A first shard, and a second one that differs from what it should be."""

    def second(self, shard: tuple[int, int] | None = (2, 2), tests: str = "24", **fields: Any) -> str | None:
        """How a second shard with these fields cannot be of one run with the first."""
        other = part(shard, tests, [record(number) for number in tests], **fields)
        return difference(halves()[0], other)

    def test_of_one_run(self) -> None:
        """Host, command line, deadlines and time may differ, and so may modules that only one has seen."""
        for fields in (
            {},
            {"hostname": "two", "platform": "Linux 7", "started_at": 500.0, "argv": ("m", "--shard", "2/2")},
            {"options": {"timeout": 7.0, "jobs": 3}, "environ": {"HARNESS_GRACE": "9"}},
            {"sources": {"harness": "a", "other": "c"}},
            {"shard": (1, 2), "tests": "13"},
            {"shard": (1, 2), "tests": "3"},
        ):
            with self.subTest(fields):
                self.assertIsNone(self.second(**fields))

    def test_of_several(self) -> None:
        """Each contradiction is one reason that shows both sides."""
        table: tuple[tuple[dict[str, Any], str], ...] = (
            ({"shard": (1, 3)}, "shard 1/2, and shard 1/3"),
            ({"shard": None, "tests": "1234"}, "shard 1/2, and not split"),
            ({"selection": ("m.T.test_1",)}, "part-1-100 was to run m.T.test_2, part-2-100 was not"),
            ({"tests": "14"}, "both run m.T.test_1: they were cut by different --timings"),
            ({"sources": {"harness": "a", "m": "c"}}, "the source of m differs"),
            ({"sources": {"harness": "x"}}, "the source of harness differs"),
            ({"torch": "2.12.1"}, "torch 2.13.0, and torch 2.12.1"),
            ({"torch": None}, "torch 2.13.0, and torch is missing"),
            ({"python": "3.12.1"}, "Python 3.11.2, and Python 3.12.1"),
            ({"seed": 8}, "seed 7, and seed 8"),
            ({"options": {"slow": True}}, "--slow is not given, and True"),
            ({"options": {"reruns": 2}}, "--reruns is not given, and 2"),
            ({"options": {"drop_in": True}}, "--drop-in is not given, and True"),
            ({"environ": {"HARNESS_RANKS": "threads"}}, "HARNESS_RANKS is not given, and threads"),
        )
        for fields, said in table:
            with self.subTest(fields):
                self.assertEqual(self.second(**fields), said)

    def test_check(self) -> None:
        """The error names both directories; parts that agree are no error."""
        check(halves())
        with self.assertRaisesRegex(
            UsageError, "^part-1-100 and part-2-9 are not of one run: seed 7, and seed 8$"
        ):
            check([*halves(), part((2, 2), "24", [], seed=8, started_at=9.0)])


if __name__ == "__main__":
    unittest.main()
