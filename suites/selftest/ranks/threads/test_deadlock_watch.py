"""Tests the watch over ranks that are threads, on logs that the tests write."""

from __future__ import annotations

import mmap
import subprocess
import threading
import unittest
from dataclasses import replace
from typing import Any

from harness.communication.call_log import LOG_BYTES, CallLog
from harness.communication_call import Kind, Signature
from harness.ranks.threads.deadlock_watch import ThreadDeadlockWatch, WatchedThread

UNTIL_S = 1e9
BARRIER = Signature("barrier", "0", members=(0, 1), default=True)


class WatchTest(unittest.TestCase):
    """What ``ThreadDeadlockWatch`` finds, of a rank that waits and one that has reported."""

    def setUp(self) -> None:
        self.watch = ThreadDeadlockWatch()
        memory = [mmap.mmap(-1, LOG_BYTES) for _ in range(2)]
        self.logs = [CallLog(each) for each in memory]
        here = threading.get_native_id()
        self.ranks = [WatchedThread(rank, each, here, rank == 1, 7) for rank, each in enumerate(memory)]

    def waits(self, rank: int, signature: Signature = BARRIER) -> None:
        """Has a rank wait in a call."""
        log = self.logs[rank]
        log.begin(log.text(signature), 0, 1, waits=True)

    def look(self, **otherwise: Any) -> list[tuple[int, ...]]:
        """What two looks find, where the rank that waits is otherwise than asleep."""
        ranks = [replace(self.ranks[0], **otherwise), self.ranks[1]]
        return [self.watch.look(ranks, UNTIL_S) for _ in range(2)]

    def test_stuck(self) -> None:
        """A rank that sleeps and waits for one that has reported is stuck at the second look."""
        self.waits(0)
        self.assertEqual(self.look(), [(), (0,)])

    def test_no_proof(self) -> None:
        """A rank that runs or waits for its turn can move, and so can one that others may still help."""
        self.waits(0)
        self.assertEqual(self.look(ticks=None), [(), ()])
        self.waits(1)
        self.assertEqual(self.look(), [(), ()])

    def test_movement(self) -> None:
        """After each movement the looks begin anew: of a log, or of a thread that has run for a moment."""
        self.waits(0)
        self.look()
        self.assertEqual(self.look(ticks=8), [(), (0,)])
        self.logs[1].end(self.logs[1].begin(self.logs[1].text(BARRIER), 0, 7))
        self.assertEqual(self.look(ticks=8), [(), (0,)])

    def test_help(self) -> None:
        """A process that the rank's thread has started may set a key."""
        self.waits(0, Signature("store.get", kind=Kind.STORE, key="k"))
        self.assertEqual(self.look(), [(), (0,)])
        with subprocess.Popen(["sleep", "600"]) as child:
            self.assertEqual(self.look(), [(), ()])
            child.kill()


if __name__ == "__main__":
    unittest.main()
