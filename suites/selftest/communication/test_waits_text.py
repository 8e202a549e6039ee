"""Tests the texts about ranks that wait."""

from __future__ import annotations

import unittest

from harness.communication.wait_graph import Waiting
from harness.communication.waits_text import alike, call_text, waits_text
from suites.selftest.communication.samples import call, receive

BARRIER = call("barrier", 4)


class WaitsTextTest(unittest.TestCase):
    """Who waits in what."""

    def test_alike(self) -> None:
        """Ranks of which the same is said stand together, in the order of the lowest."""
        self.assertEqual(alike([3, 0, 1, 2], lambda rank: rank % 2), [(0, [0, 2]), (1, [1, 3])])

    def test_call_text(self) -> None:
        """A call without its group, with the user's line."""
        self.assertEqual(call_text(Waiting(0, BARRIER, (1,))), "barrier #4 (t.py:20 in test_x)")

    def test_waits_text(self) -> None:
        """Ranks that wait in the same call stand together."""
        waits = [Waiting(rank, BARRIER, (3,)) for rank in (0, 1)]
        both = "ranks 0, 1 wait in barrier #4 (t.py:20 in test_x)"
        self.assertEqual(waits_text(waits), both)
        waits.append(Waiting(2, receive(3), (3,)))
        self.assertEqual(waits_text(waits), f"{both}; rank 2 waits in recv from rank 3 (t.py:20 in test_x)")
        self.assertEqual(waits_text([]), "")


if __name__ == "__main__":
    unittest.main()
