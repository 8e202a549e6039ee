"""Tests the matching of collectives: who called what, and when all have called it."""

from __future__ import annotations

import threading
import unittest

from harness.ranks.threads.collective_matcher import CollectiveMatcher, MismatchError

# Seconds for another thread to reach a point; only a broken test waits this long.
ARRIVAL_S = 300.0


class CollectiveMatcherTest(unittest.TestCase):
    """Pending collectives, which match the ranks' calls."""

    def test_complete(self) -> None:
        """A collective is complete when all have called it; another group counts for itself."""
        matcher = CollectiveMatcher()
        first = matcher.arrive(0, "0", 1, "barrier", 2)
        self.assertFalse(first.complete)
        self.assertIs(matcher.arrive(1, "0", 1, "barrier", 2), first)
        self.assertTrue(first.complete)
        self.assertFalse(matcher.arrive(0, "1", 1, "broadcast", 2).complete)

    def test_mismatch(self) -> None:
        """A mismatch names the operations and the ranks that called them."""
        matcher = CollectiveMatcher()
        matcher.arrive(0, "0", 3, "barrier", 3)
        matcher.arrive(2, "0", 3, "barrier", 3)
        with self.assertRaisesRegex(MismatchError, r"#3 of group 0: gather on rank 1, barrier on ranks 0, 2"):
            matcher.arrive(1, "0", 3, "gather", 3)

    def test_end(self) -> None:
        """The end of the test lets go whoever waits."""
        matcher = CollectiveMatcher()
        pending = matcher.arrive(0, "0", 1, "new_group", 2)
        thread = threading.Thread(target=matcher.wait, args=(pending,), daemon=True)
        thread.start()
        matcher.end()
        thread.join(ARRIVAL_S)
        self.assertFalse(thread.is_alive())


if __name__ == "__main__":
    unittest.main()
