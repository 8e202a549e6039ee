"""Tests the collective log: what a rank notes about its collectives is what the parent reads."""

from __future__ import annotations

import math
import mmap
import os
import struct
import time
import unittest

from hypothesis import strategies as st

from harness.communication import collective_log
from suites.selftest.properties import given

# The first entry of a page, as it is documented: two names, a number and two times, behind the count.
FIRST_ENTRY = struct.Struct("<Q8x28s32sIdd")


def memory() -> mmap.mmap:
    """A log's memory, private to this test."""
    return mmap.mmap(-1, collective_log.PAGE_BYTES)


class LogTest(unittest.TestCase):
    """A log that a rank writes and the parent reads."""

    def test_empty(self) -> None:
        """An empty log has no records."""
        with memory() as page:
            self.assertEqual(collective_log.read(page), ())

    def test_round_trip(self) -> None:
        """Ended and open collectives come back oldest first, with their times in order."""
        with memory() as page:
            book = collective_log.CollectiveLog(page)
            first = book.begin("all_reduce", "0", 1)
            book.begin("broadcast", "1", 1)
            book.end(first)
            done, waiting = collective_log.read(page)
            self.assertEqual(str(done), "all_reduce #1 of group 0")
            self.assertEqual(str(waiting), "broadcast #1 of group 1")
            assert done.ended_s is not None
            self.assertLessEqual(done.started_s, waiting.started_s)
            self.assertLessEqual(waiting.started_s, done.ended_s)
            self.assertIsNone(waiting.ended_s)

    @given(st.lists(st.booleans(), max_size=2 * collective_log.ENTRIES + 5))
    def test_ring(self, ends: list[bool]) -> None:
        """Of any number of collectives the last ENTRIES are kept, each with whether it has ended."""
        with memory() as page:
            book = collective_log.CollectiveLog(page)
            for number, over in enumerate(ends, start=1):
                token = book.begin("send", "0", number)
                if over:
                    book.end(token)
            expected = list(enumerate(ends, start=1))[-collective_log.ENTRIES :]
            self.assertEqual(
                [(r.sequence, r.ended_s is not None) for r in collective_log.read(page)], expected
            )

    def test_beginning(self) -> None:
        """A rank that begins its test notes when, and forgets it with the entries of that test."""
        file = collective_log.memory_file()
        self.addCleanup(os.close, file)
        with mmap.mmap(file, collective_log.PAGE_BYTES) as page:
            book = collective_log.CollectiveLog(page)
            self.assertIsNone(collective_log.began_s(file))
            before = time.monotonic()
            book.begin_test()
            began = collective_log.began_s(file)
            assert began is not None
            self.assertLessEqual(before, began)
            book.begin("send", "0", 1)
            self.assertEqual(collective_log.began_s(file), began)
            book.clear()
            self.assertIsNone(collective_log.began_s(file))

    def test_late_end(self) -> None:
        """The end of a collective that has left the ring does not change the record that took its place."""
        with memory() as page:
            book = collective_log.CollectiveLog(page)
            old = book.begin("recv", "0", 0)
            for number in range(collective_log.ENTRIES):
                book.begin("send", "0", number)
            book.end(old)
            self.assertEqual({r.ended_s for r in collective_log.read(page)}, {None})

    def test_long_names(self) -> None:
        """A long name is cut, even in the middle of a character."""
        with memory() as page:
            collective_log.CollectiveLog(page).begin("ä" * 40, "group " * 20, 1)
            (record,) = collective_log.read(page)
            self.assertTrue(record.operation.startswith("ä" * 13))
            self.assertEqual(record.group, ("group " * 20)[:32])

    @given(st.binary(max_size=collective_log.PAGE_BYTES))
    def test_overwritten(self, garbage: bytes) -> None:
        """Whatever a test wrote over the page, what is read of it can be shown and computed with."""
        for record in collective_log.read(garbage.ljust(collective_log.PAGE_BYTES, b"\xff")):
            self.assertTrue(record.operation.isprintable() and record.group.isprintable())
            ended = record.ended_s if record.ended_s is not None else record.started_s
            self.assertTrue(0.0 < record.started_s <= ended < math.inf)

    def test_impossible_times(self) -> None:
        """An entry with times that no clock shows is no collective."""
        times = [(1.0, 0.0, 1), (1.0, 2.0, 1), (2.0, 1.0, 0), (0.0, 0.0, 0), (math.nan, 0.0, 0)]
        times += [(1.0, math.nan, 0), (1.0, math.inf, 0), (-math.inf, 0.0, 0)]
        for started, ended, expected in times:
            with self.subTest(started=started, ended=ended), memory() as page:
                FIRST_ENTRY.pack_into(page, 0, 1, b"send", b"0", 1, started, ended)
                self.assertEqual(len(collective_log.read(page)), expected)


class MemoryFileTest(unittest.TestCase):
    """The memory file of a log, which the parent reads while the rank may do anything to it."""

    def setUp(self) -> None:
        self.file = collective_log.memory_file()
        self.addCleanup(os.close, self.file)
        with mmap.mmap(self.file, collective_log.PAGE_BYTES) as page:
            collective_log.CollectiveLog(page).begin("barrier", "0", 1)

    def test_round_trip(self) -> None:
        """What the rank noted is what is read."""
        self.assertEqual([str(r) for r in collective_log.read_file(self.file)], ["barrier #1 of group 0"])

    def test_cut_off(self) -> None:
        """A file that was shrunk is an empty log, or as much of it as there still is."""
        copy = os.memfd_create("unsealed")
        self.addCleanup(os.close, copy)
        os.write(copy, os.pread(self.file, collective_log.PAGE_BYTES, 0))
        for size in (collective_log.PAGE_BYTES - 1, 100, 7, 0):
            with self.subTest(size=size):
                os.ftruncate(copy, size)
                self.assertLessEqual(len(collective_log.read_file(copy)), 1)
        self.assertEqual(collective_log.read_file(copy), ())


if __name__ == "__main__":
    unittest.main()
