"""Tests the collective log: what a rank notes about its collectives is what the parent reads."""

from __future__ import annotations

import mmap
import time
import unittest

from hypothesis import strategies as st

from harness.communication import collective_log
from suites.selftest.properties import given


def memory(world_size: int) -> mmap.mmap:
    """A ledger's memory, private to this test."""
    return mmap.mmap(-1, collective_log.size(world_size))


class LedgerTest(unittest.TestCase):
    """A log that a rank writes and the parent reads."""

    def test_empty(self) -> None:
        """An empty log has no records."""
        with memory(2) as page:
            self.assertEqual(collective_log.read(page, 1), ())

    def test_round_trip(self) -> None:
        """Ended and open collectives come back oldest first, with their times in order."""
        with memory(1) as page:
            book = collective_log.CollectiveLog(page, 0)
            first = book.begin("all_reduce", "0", 1)
            book.begin("broadcast", "1", 1)
            book.end(first)
            done, waiting = collective_log.read(page, 0)
            self.assertEqual(str(done), "all_reduce #1 of group 0")
            self.assertEqual(str(waiting), "broadcast #1 of group 1")
            assert done.ended_s is not None
            self.assertLessEqual(done.started_s, waiting.started_s)
            self.assertLessEqual(waiting.started_s, done.ended_s)
            self.assertIsNone(waiting.ended_s)

    def test_ranks_are_apart(self) -> None:
        """Full logs of neighbouring ranks do not change a rank's log."""
        with memory(3) as page:
            for rank in (0, 2):
                book = collective_log.CollectiveLog(page, rank)
                for number in range(2 * collective_log.ENTRIES):
                    book.begin("x" * 28, "y" * 32, number)
            self.assertEqual(collective_log.read(page, 1), ())
            collective_log.CollectiveLog(page, 1).begin("barrier", "0", 1)
            self.assertEqual([r.operation for r in collective_log.read(page, 1)], ["barrier"])

    @given(st.lists(st.booleans(), max_size=2 * collective_log.ENTRIES + 5))
    def test_ring(self, ends: list[bool]) -> None:
        """Of any number of collectives the last ENTRIES are kept, each with whether it has ended."""
        with memory(1) as page:
            book = collective_log.CollectiveLog(page, 0)
            for number, over in enumerate(ends, start=1):
                token = book.begin("send", "0", number)
                if over:
                    book.end(token)
            expected = list(enumerate(ends, start=1))[-collective_log.ENTRIES :]
            self.assertEqual(
                [(r.sequence, r.ended_s is not None) for r in collective_log.read(page, 0)], expected
            )

    def test_beginning(self) -> None:
        """A rank that begins its test notes when, and forgets it with the entries of that test."""
        with memory(2) as page:
            book = collective_log.CollectiveLog(page, 1)
            self.assertIsNone(collective_log.began_s(page, 1))
            before = time.monotonic()
            book.begin_test()
            began = collective_log.began_s(page, 1)
            assert began is not None
            self.assertLessEqual(before, began)
            book.begin("send", "0", 1)
            self.assertEqual(collective_log.began_s(page, 1), began)
            self.assertIsNone(collective_log.began_s(page, 0))
            book.clear()
            self.assertIsNone(collective_log.began_s(page, 1))

    def test_late_end(self) -> None:
        """The end of a collective that has left the ring does not change the record that took its place."""
        with memory(1) as page:
            book = collective_log.CollectiveLog(page, 0)
            old = book.begin("recv", "0", 0)
            for number in range(collective_log.ENTRIES):
                book.begin("send", "0", number)
            book.end(old)
            self.assertEqual({r.ended_s for r in collective_log.read(page, 0)}, {None})

    def test_long_names(self) -> None:
        """A long name is cut, even in the middle of a character."""
        with memory(1) as page:
            collective_log.CollectiveLog(page, 0).begin("ä" * 40, "group " * 20, 1)
            (record,) = collective_log.read(page, 0)
            self.assertTrue(record.operation.startswith("ä" * 13))
            self.assertEqual(record.group, ("group " * 20)[:32])


if __name__ == "__main__":
    unittest.main()
