"""Tests the call log: what a rank writes about its calls is what the parent reads."""

from __future__ import annotations

import math
import mmap
import os
import struct
import time
import unittest

from hypothesis import strategies as st

from harness.communication import call_log
from harness.communication.call_log import CallLog
from harness.communication.log_entries import OWN_WORK, UNSEEN
from harness.communication_call import Kind, Signature
from suites.selftest.properties import given

ALL_REDUCE = Signature("all_reduce", "0", members=(0, 1), tensors="(2,) float32")
# The first entry: offsets of signature and place, two numbers, flags, threads, no group, and three times.
FIRST_ENTRY = struct.Struct("=IIIIHH4xddd")
FIRST_AT = 64 + FIRST_ENTRY.size  # behind the head and the entry that is kept


def memory() -> mmap.mmap:
    """A log's memory, private to this test."""
    return mmap.mmap(-1, call_log.LOG_BYTES)


class LogTest(unittest.TestCase):
    """A log that a rank writes and the parent reads."""

    def setUp(self) -> None:
        self.memory = memory()
        self.log = CallLog(self.memory)

    def begin(self, sequence: int = 1, signature: Signature = ALL_REDUCE, place: str = "t.py:3 in f") -> int:
        """Begins a call and returns its token."""
        return self.log.begin(self.log.text(signature), self.log.text(place), sequence)

    def test_empty(self) -> None:
        """An empty log has no calls."""
        self.assertEqual(call_log.read(self.memory), ())

    def test_round_trip(self) -> None:
        """Ended, awaited and open calls come back oldest first, with signature, place and times in order."""
        first, second = self.begin(1), self.begin(2)
        self.begin(1, Signature("recv", kind=Kind.RECEIVE, peer=3), "")
        self.log.end(first)
        self.log.wait(second)
        ended, awaited, open_one = call_log.read(self.memory)
        self.assertEqual([c.signature for c in (ended, awaited)], [ALL_REDUCE] * 2)
        self.assertEqual((ended.sequence, awaited.sequence), (1, 2))
        self.assertEqual((ended.place, open_one.place), ("t.py:3 in f", ""))
        self.assertEqual(open_one.signature.peer, 3)
        assert ended.ended_s is not None and awaited.waiting_s is not None
        self.assertLessEqual(ended.started_s, awaited.started_s)
        self.assertLessEqual(ended.ended_s, awaited.waiting_s)
        self.assertEqual((awaited.waits, open_one.waits, ended.waits), (True, False, False))

    def test_flags(self) -> None:
        """Each flag comes back, also those that are set later."""
        text = self.log.text(ALL_REDUCE)
        token = self.log.begin(text, 0, 1, 4, 3, flags=OWN_WORK)
        self.log.wait(token, bounded=True)
        self.log.raised(token)
        self.log.begin(text, 0, 2, 2, 1, True, flags=UNSEEN)
        first, second = call_log.read(self.memory)
        told = (first.number, first.threads, first.own_work, first.bounded, first.raised, first.unseen)
        self.assertEqual(told, (4, 3, True, True, True, False))
        self.assertEqual((second.waits, second.own_work, second.unseen), (True, False, True))

    def test_gave_up(self) -> None:
        """A call that was waited for with a timeout is one that nobody waits for, with its other flags."""
        token = self.log.begin(self.log.text(ALL_REDUCE), 0, 1, flags=OWN_WORK)
        self.log.wait(token, bounded=True)
        changes = call_log.read_head(self.memory).changes
        self.log.gave_up(token)
        (call,) = call_log.read(self.memory)
        self.assertEqual((call.waits, call.bounded, call.own_work, call.ended_s), (False, False, True, None))
        self.assertGreater(call_log.read_head(self.memory).changes, changes)

    @given(st.lists(st.booleans(), max_size=call_log.ENTRIES + 20))
    def test_ring(self, ends: list[bool]) -> None:
        """Of any number of calls the last ENTRIES are kept, each with whether it has ended."""
        self.log.clear()
        for number, over in enumerate(ends, start=1):
            token = self.begin(number)
            if over:
                self.log.end(token)
        expected = list(enumerate(ends, start=1))[-call_log.ENTRIES :]
        self.assertEqual([(c.sequence, c.ended_s is not None) for c in call_log.read(self.memory)], expected)

    def test_late_end(self) -> None:
        """The end of a call that has left the ring does not change the one that took its place."""
        old = self.begin()
        for number in range(call_log.ENTRIES):
            self.begin(number + 2)
        self.log.end(old)
        self.assertEqual({c.ended_s for c in call_log.read(self.memory)}, {None})

    def test_head_moves(self) -> None:
        """A call that begins or ends changes the head; nothing else does."""
        heads = [call_log.read_head(self.memory)]
        token = self.begin()
        heads.append(call_log.read_head(self.memory))
        self.log.end(token)
        heads.append(call_log.read_head(self.memory))
        self.assertEqual(len(set(heads)), 3)
        self.assertEqual(call_log.read_head(self.memory), heads[-1])

    def test_texts_are_kept(self) -> None:
        """A cleared log knows its texts, until they fill half of their room."""
        first = self.log.text("a place")
        self.log.clear()
        self.assertEqual((self.log.text("a place"), self.log.edition), (first, 0))
        for number in range(40):
            self.log.text(f"{number}" * 3000)
        self.log.clear()
        self.assertEqual(self.log.edition, 1)
        self.begin(1, place="a place")
        self.assertEqual([c.place for c in call_log.read(self.memory)], ["a place"])

    def test_no_room_for_texts(self) -> None:
        """Where there is no room left, a call is noted without them."""
        self.log.text("x" * (call_log.LOG_BYTES - 5000 - call_log.ENTRIES * FIRST_ENTRY.size - FIRST_AT))
        self.begin(1, place="y" * 6000)
        (call,) = call_log.read(self.memory)
        self.assertEqual((call.signature, call.place), (ALL_REDUCE, ""))

    def test_unprintable(self) -> None:
        """What could not be printed is shown as question marks."""
        self.begin(1, Signature("store.get", kind=Kind.STORE, key="a\x1b\ud800"), "t\n.py")
        (call,) = call_log.read(self.memory)
        self.assertTrue(call.signature.key.isprintable() and call.place.isprintable())

    @given(st.binary(max_size=2000))
    def test_overwritten(self, garbage: bytes) -> None:
        """Whatever a test wrote over the log, what is read of it can be shown and computed with."""
        self.memory[:] = garbage.ljust(call_log.LOG_BYTES, b"\xff")
        for call in call_log.read(self.memory):
            self.assertTrue(str(call).isprintable() and call.place.isprintable())
            ended = call.ended_s if call.ended_s is not None else call.started_s
            self.assertTrue(0.0 < call.started_s <= ended < math.inf)
        self.memory[:] = bytes(call_log.LOG_BYTES)

    def test_impossible_times(self) -> None:
        """An entry with times that no clock shows is no call."""
        self.begin()
        times = [(1.0, 0.0, 1), (1.0, 2.0, 1), (2.0, 1.0, 0), (0.0, 0.0, 0), (math.nan, 0.0, 0)]
        times += [(1.0, math.nan, 0), (1.0, math.inf, 0), (-math.inf, 0.0, 0), (1e30, 0.0, 0), (1.0, 1e30, 0)]
        for started, ended, expected in times:
            with self.subTest(started=started, ended=ended):
                FIRST_ENTRY.pack_into(self.memory, FIRST_AT, 4, 0, 1, 1, 0, 1, started, 0.0, ended)
                self.assertEqual(len(call_log.read(self.memory)), expected)


class MemoryFileTest(unittest.TestCase):
    """The memory file of a log, which the parent reads while the rank may do anything to it."""

    def setUp(self) -> None:
        self.file = call_log.memory_file()
        self.addCleanup(os.close, self.file)
        log = CallLog(mmap.mmap(self.file, call_log.LOG_BYTES))
        log.begin(log.text(ALL_REDUCE), 0, 1)

    def test_round_trip(self) -> None:
        """What the rank noted is what is read."""
        self.assertEqual([c.signature for c in call_log.read(self.file)], [ALL_REDUCE])

    def test_beginning(self) -> None:
        """A rank that begins its test notes when, and forgets it with the calls of that test."""
        log = CallLog(mmap.mmap(self.file, call_log.LOG_BYTES))
        log.clear()
        self.assertIsNone(call_log.read_head(self.file).began_s)
        before = time.monotonic()
        log.begin_test()
        began = call_log.read_head(self.file).began_s
        assert began is not None
        self.assertLessEqual(before, began)
        log.begin(log.text(ALL_REDUCE), 0, 1)
        self.assertEqual(call_log.read_head(self.file).began_s, began)
        log.clear()
        self.assertIsNone(call_log.read_head(self.file).began_s)

    def test_end_and_name(self) -> None:
        """A rank notes what its test is called, and that it is done with it, until the next is cleared."""
        log = CallLog(mmap.mmap(self.file, call_log.LOG_BYTES))
        log.clear()
        self.assertEqual(call_log.read_test(self.file), ("", False))
        log.begin_test("m.T.test")
        self.assertEqual(call_log.read_test(self.file), ("m.T.test", False))
        log.begin(log.text(ALL_REDUCE), 0, 1)
        log.end_test()
        self.assertEqual(call_log.read_test(self.file), ("m.T.test", True))
        self.assertEqual([c.signature for c in call_log.read(self.file)], [ALL_REDUCE])
        log.clear()
        self.assertEqual(call_log.read_test(self.file), ("", False))

    def test_kept(self) -> None:
        """A call that is kept comes first once the ring has dropped it, in a copy too."""
        log = CallLog(mmap.mmap(self.file, call_log.LOG_BYTES))
        log.clear()
        kept = log.begin(log.text(Signature("init_rpc", kind=Kind.WORKERS, key="w0")), 0, 1)
        log.end(kept)
        log.keep(kept)
        for more, expected in ((call_log.ENTRIES - 1, [1, 2]), (1, [1, 2]), (1, [1, 3])):
            for _ in range(more):
                log.begin(log.text(ALL_REDUCE), 0, log.count + 1)
            first, second = call_log.read(self.file)[:2]
            self.assertEqual([first.sequence, second.sequence], expected)
            self.assertEqual((first.kind, first.waits), (Kind.WORKERS, False))
        seen = call_log.Observation(1.0, can_move=True, helped=False, stopped=False)
        copy = os.memfd_create("copy")
        self.addCleanup(os.close, copy)
        os.write(copy, call_log.shifted_copy(self.file, 5.0, seen))
        there = call_log.read(copy)[0]
        assert there.ended_s is not None and first.ended_s is not None
        self.assertAlmostEqual(there.ended_s, first.ended_s + 5.0)
        self.assertEqual(call_log.read_observation(copy), seen)
        log.keep(-1)
        self.assertEqual(call_log.read(self.file)[0].sequence, 3)

    def test_kept_of_an_earlier_test(self) -> None:
        """What was kept is forgotten with the calls of its test."""
        log = CallLog(mmap.mmap(self.file, call_log.LOG_BYTES))
        log.keep(0)
        log.clear()
        for number in range(call_log.ENTRIES + 1):
            log.begin(log.text(ALL_REDUCE), 0, number)
        self.assertEqual(call_log.read(self.file)[0].sequence, 1)

    def test_cut_off(self) -> None:
        """A file that was shrunk is an empty log, or as much of it as there still is."""
        copy = os.memfd_create("unsealed")
        self.addCleanup(os.close, copy)
        os.write(copy, os.pread(self.file, call_log.LOG_BYTES, 0))
        for size in (call_log.LOG_BYTES - 1, 100, 7, 0):
            with self.subTest(size=size):
                os.ftruncate(copy, size)
                self.assertLessEqual(len(call_log.read(copy)), 1)
                self.assertEqual(call_log.read_test(copy), ("", False))
        self.assertEqual(call_log.read(copy), ())


if __name__ == "__main__":
    unittest.main()
