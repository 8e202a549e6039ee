"""Tests the copy of a call log on another host: equal calls at that host's times, sent once."""

from __future__ import annotations

import mmap
import os
import unittest

from harness.communication import call_log
from harness.communication.call_log import CallLog, Observation
from harness.communication.log_copy import LogSource, apply
from harness.communication_call import Signature

SEEN = Observation(5.0, can_move=True, helped=False, stopped=True)
SHIFT_S = 1000.0


class LogCopyTest(unittest.TestCase):
    """A log, its source and its copy."""

    def setUp(self) -> None:
        self.files = [call_log.memory_file() for _ in range(2)]
        for file in self.files:
            self.addCleanup(os.close, file)
        self.log = CallLog(mmap.mmap(self.files[0], call_log.LOG_BYTES))
        self.source = LogSource(self.files[0])

    def send(self, seen: Observation = SEEN) -> int:
        """Brings the copy up to date; returns how many bytes that took."""
        pieces = list(self.source.changes(SHIFT_S, seen))
        for offset, piece in pieces:
            apply(self.files[1], offset, piece)
        return sum(len(piece) for _, piece in pieces)

    def call(self, number: int) -> None:
        """Makes and ends a call."""
        signature = self.log.text(Signature("all_reduce", "0", members=(0, 1)))
        self.log.end(self.log.begin(signature, self.log.text("t.py:3 in f"), number, waits=True))

    def compare(self) -> None:
        """The calls of the copy are those of the log, later by the shift."""
        theirs, ours = call_log.read(self.files[0]), call_log.read(self.files[1])
        self.assertEqual([c.signature for c in ours], [c.signature for c in theirs])
        self.assertEqual([(c.sequence, c.place) for c in ours], [(c.sequence, c.place) for c in theirs])
        for one, two in zip(theirs, ours, strict=True):
            self.assertAlmostEqual(two.started_s - one.started_s, SHIFT_S, places=3)
            self.assertAlmostEqual((two.ended_s or 0) - (one.ended_s or 0), SHIFT_S, places=3)

    def test_calls(self) -> None:
        """Calls come with their texts; a second time only what has changed; rings that are full too."""
        self.send()
        self.assertEqual(call_log.read(self.files[1]), ())
        self.log.begin_test()
        self.call(1)
        first = self.send()
        self.compare()
        self.assertEqual(self.send(), 0)
        self.call(2)
        self.assertLess(self.send(), first)
        self.compare()
        for number in range(3, call_log.ENTRIES + 10):
            self.call(number)
        self.send()
        self.compare()

    def test_begun(self) -> None:
        """The test's begin is at the copy's time, and none as long as it has not begun."""
        self.send()
        self.assertIsNone(call_log.read_head(self.files[1]).began_s)
        self.log.begin_test()
        self.send()
        theirs, ours = (call_log.read_head(file).began_s for file in self.files)
        assert theirs is not None and ours is not None
        self.assertAlmostEqual(ours - theirs, SHIFT_S, places=3)

    def test_cleared(self) -> None:
        """After the log is cleared for the next test the copy has no calls either."""
        self.call(1)
        self.send()
        self.log.clear()
        self.send()
        self.assertEqual(call_log.read(self.files[1]), ())

    def test_observation(self) -> None:
        """What the host has seen stands in the copy, each time anew, and never in a log itself."""
        self.assertIsNone(call_log.read_observation(self.files[1]))
        self.send()
        self.assertEqual(call_log.read_observation(self.files[1]), SEEN)
        later = Observation(6.0, can_move=False, helped=True, stopped=False)
        self.send(later)
        self.assertEqual(call_log.read_observation(self.files[1]), later)
        self.assertIsNone(call_log.read_observation(self.files[0]))

    def test_outside(self) -> None:
        """A piece that would not lie within the log is refused."""
        for offset in (-1, call_log.LOG_BYTES - 1):
            with self.subTest(offset), self.assertRaises(ValueError):
                apply(self.files[1], offset, b"xy")


if __name__ == "__main__":
    unittest.main()
