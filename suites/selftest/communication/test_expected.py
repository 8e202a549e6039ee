"""Tests which calls fit an expected line, and what is said of communication that is not as expected."""

from __future__ import annotations

import unittest

from harness import UsageError
from harness.communication.expected import Expected, fits, mismatch
from harness.communication.history import Communication
from harness.communication_call import Call
from suites.selftest.communication.samples import call, send

REDUCE = call(reduce_op="SUM", tensors="(3,) float32", nbytes=12, members=(0, 1))
GATHER = call("all_gather", tensors="(2,) int64", nbytes=16, members=(0, 1))
SENT = send(1, 7, tensors="(3,) float32", nbytes=12)


class FitsTest(unittest.TestCase):
    """Which lines a call fits."""

    def test_table(self) -> None:
        table: list[tuple[str, Call, bool]] = [
            ("all_reduce", REDUCE, True),
            ("all_reduce SUM (3,) float32 12 bytes on {0, 1}", REDUCE, True),
            ("all_reduce  12 bytes on {0, 1} ", REDUCE, True),
            ("all_reduce (3,) float32 on {0, 1}", REDUCE, True),
            ("all_reduce (3,)", REDUCE, True),
            ("all_reduce float32", REDUCE, True),
            ("all_reduce MAX", REDUCE, False),
            ("all_reduce (3,) float64", REDUCE, False),
            ("all_reduce 2 bytes", REDUCE, False),
            ("all_reduce on {0, 1, 2}", REDUCE, False),
            ("all_reduce on {0, 1} 12 bytes", REDUCE, False),
            ("all", REDUCE, False),
            ("(3,) float32", REDUCE, False),
            ("", REDUCE, False),
            ("send to rank 1", SENT, True),
            ("send (3,) float32 to rank 1 tag 7", SENT, True),
            ("send to rank 10", SENT, False),
            ("send tag 70", SENT, False),
        ]
        for line, each, expected in table:
            with self.subTest(line):
                self.assertEqual(fits(line, each), expected)


class MismatchTest(unittest.TestCase):
    """What ``mismatch`` says."""

    def told(self, expected: Expected, *calls: Call) -> list[str]:
        """The lines of what is said."""
        return mismatch(expected, Communication(calls)).splitlines()

    def test_as_expected(self) -> None:
        """In order, or counted in any."""
        as_expected: list[Expected] = [
            ["all_reduce", "all_gather", "all_reduce"],
            ("all_reduce SUM", "all_gather 16 bytes", "all_reduce"),
            {"all_gather": 1, "all_reduce": 2},
            {"all_gather": 1, "all_reduce": 2, "broadcast": 0},
        ]
        for expected in as_expected:
            with self.subTest(expected):
                self.assertEqual(self.told(expected, REDUCE, GATHER, REDUCE), [])
        self.assertEqual(self.told([]), [])
        self.assertEqual(self.told({}), [])

    def test_in_order(self) -> None:
        """A diff: what is as expected stands around it, with what was really called and where."""
        reduced = "all_reduce SUM (3,) float32 12 bytes on {0, 1}  (t.py:20 in test_x)"
        gathered = "all_gather (2,) int64 16 bytes on {0, 1}  (t.py:20 in test_x)"
        self.assertEqual(
            self.told(["all_reduce", "barrier", "all_reduce"], REDUCE, GATHER, REDUCE),
            [
                "3 calls expected (-), 3 seen (+):",
                f"  {reduced}",
                "- barrier",
                f"+ {gathered}",
                f"  {reduced}",
            ],
        )
        self.assertEqual(
            self.told(["all_reduce"], REDUCE, GATHER),
            ["1 call expected (-), 2 seen (+):", f"  {reduced}", f"+ {gathered}"],
        )
        self.assertEqual(self.told(["all_gather"]), ["1 call expected (-), 0 seen (+):", "- all_gather"])

    def test_long_ones_are_cut(self) -> None:
        """Calls that are as expected and far from the others are counted only."""
        found = self.told(["all_reduce"] * 50, *[REDUCE] * 50, GATHER)
        self.assertEqual((len(found), found[1]), (5, "  ... 48 calls before"))

    def test_by_count(self) -> None:
        """The lines with another count, with their calls, and then the calls that fit none."""
        gathered = "+ all_gather (2,) int64 16 bytes on {0, 1}  (t.py:20 in test_x)"
        self.assertEqual(
            self.told({"all_reduce": 1, "barrier": 2}, REDUCE, GATHER),
            ["3 calls expected (-), 2 seen (+):", "- 2 times barrier", "+ (none)", gathered],
        )
        self.assertEqual(
            self.told({"all_gather": 2}, GATHER),
            ["2 calls expected (-), 1 seen (+):", "- 2 times all_gather", gathered],
        )

    def test_what_is_no_expectation(self) -> None:
        """A line alone would be read as a sequence of letters."""
        for wrong in ("all_reduce", 3):
            with (
                self.subTest(wrong),
                self.assertRaisesRegex(UsageError, "a list of lines or a dict of counts"),
            ):
                mismatch(wrong, Communication())  # type: ignore[arg-type]  # as users may


if __name__ == "__main__":
    unittest.main()
