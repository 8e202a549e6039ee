"""Tests the texts about ranks that wait."""

from __future__ import annotations

import unittest

from harness.communication.analysis.wait_graph import Waiting
from harness.communication.analysis.waits_text import alike, call_text, waits_text
from suites.selftest.communication.samples import call, making, receive

BARRIER = call("barrier", 4)


class WaitsTextTest(unittest.TestCase):
    """Who waits in what."""

    def test_alike(self) -> None:
        """Ranks of which the same is said stand together, in the order of the lowest."""
        self.assertEqual(alike([3, 0, 1, 2], lambda rank: rank % 2), [(0, [0, 2]), (1, [1, 3])])

    def test_call_text(self) -> None:
        """A call with the user's line, and with its group where the rest of the line lacks it."""
        self.assertEqual(call_text(BARRIER), "barrier #4 (t.py:20 in test_x)")
        pair = call(members=(0, 1), group="1")
        self.assertEqual(
            call_text(pair, "rank 1 left the test after barrier #2 of the default group"),
            "all_reduce #1 of group {0, 1} made at t.py:9 (t.py:20 in test_x)",
        )
        self.assertEqual(
            call_text(pair, "rank 1 left the test after barrier #2 of group {0, 1} made at t.py:9"),
            "all_reduce #1 (t.py:20 in test_x)",
        )
        self.assertEqual(call_text(making(1, (0, 1))), "new_group (t.py:20 in test_x)")

    def test_waits_text(self) -> None:
        """Ranks that wait in the same call stand together."""
        waits = [Waiting(rank, BARRIER, (3,)) for rank in (0, 1)]
        both = "ranks 0, 1 wait in barrier #4 (t.py:20 in test_x)"
        self.assertEqual(waits_text(waits), both)
        waits.append(Waiting(2, receive(3), (3,)))
        self.assertEqual(waits_text(waits), f"{both}; rank 2 waits in recv from rank 3 (t.py:20 in test_x)")
        self.assertEqual(waits_text([]), "")

    def test_groups(self) -> None:
        """Ranks that wait in different groups stand apart, unless these are many."""
        pairs = [Waiting(r, call(members=(r, r + 1), group=str(r + 1)), ()) for r in range(0, 10, 2)]
        self.assertEqual(
            waits_text(pairs[:2], "rank 1 left the test after barrier #1 of group {0, 1} made at t.py:9"),
            "rank 0 waits in all_reduce #1 (t.py:20 in test_x); "
            "rank 2 waits in all_reduce #1 of group {2, 3} made at t.py:9 (t.py:20 in test_x)",
        )
        every = "ranks 0, 2, 4, 6, 8 wait in all_reduce #1 (t.py:20 in test_x)"
        self.assertEqual(waits_text(pairs), every)


if __name__ == "__main__":
    unittest.main()
