"""Tests which rank's calls went another way than those of most."""

from __future__ import annotations

import unittest

from harness.communication.analysis.outlier import outlier
from harness.communication.call_log import ENTRIES
from harness.communication_call import Call
from suites.selftest.communication.samples import call

A, B, C = (call(name) for name in ("all_reduce", "barrier", "gather"))
ELSEWHERE = call("all_reduce", place="t.py:30 in test_x")


class OutlierTest(unittest.TestCase):
    """``outlier`` by the calls of ranks."""

    def test_table(self) -> None:
        """The one rank that turns off from the way of the others; one that is behind has not."""
        table: dict[str, tuple[list[list[Call]], int | None]] = {
            "no calls": ([[], []], None),
            "all the same": ([[A, B], [A, B], [A, B]], None),
            "one is behind": ([[A, B], [A], [A, B]], None),
            "one left a call out": ([[A, B, C], [A, C], [A, B]], 1),
            "one made a call more": ([[A, C], [A, C], [A, B]], 2),
            "by another line": ([[ELSEWHERE], [A], [A]], 0),
            "the first time counts": ([[A, B, A], [A, C, A], [A, B, B]], 1),
            "one against one": ([[A, B], [A, C], [A]], None),
            "two of four": ([[A, B], [A, B], [A, C], [A, C]], None),
            "each goes its own way": ([[A], [B], [C]], None),
            "the first calls are unknown": ([[A] * ENTRIES, [B], [A] * ENTRIES], None),
        }
        for name, (calls, odd) in table.items():
            with self.subTest(name):
                self.assertEqual(outlier(dict(enumerate(calls))), odd)


if __name__ == "__main__":
    unittest.main()
