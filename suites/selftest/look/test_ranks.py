"""Tests what is seen of ranks: the logs of real memory files, in processes that hold them."""

from __future__ import annotations

import mmap
import os
import unittest
from collections.abc import Callable

from harness.communication.call_log import LOG_BYTES, CallLog, memory_file
from harness.communication_call import Signature
from harness.look.processes import HeldLog, Process
from harness.look.ranks import SeenRank, SeenSet, of_process, seen

ALL_REDUCE = Signature("all_reduce", "0", members=(0, 1), default=True)


class SeenTest(unittest.TestCase):
    """``seen``, of processes that are said to hold logs of this one."""

    def log(self, rank: int) -> tuple[CallLog, HeldLog]:
        """A rank's log, and how it is held."""
        memory = memory_file("processes-7", rank)
        self.addCleanup(os.close, memory)
        held = HeldLog("processes-7", rank, 1000 + rank, f"/proc/{os.getpid()}/fd/{memory}")
        return CallLog(mmap.mmap(memory, LOG_BYTES)), held

    def test_ranks(self) -> None:
        """Each rank has its calls and its process: not the test's, a server's or a child's of its own."""
        logs = [self.log(rank) for rank in range(2)]
        for writer, _ in logs:
            writer.clear()
        logs[0][0].begin_test("m.T.test")
        logs[0][0].begin(logs[0][0].text(ALL_REDUCE), 0, 1)
        first, second = (held for _, held in logs)
        found = seen(
            [
                Process(10, 0, (first, second)),  # the test's
                Process(11, 1, (first, second)),  # a server, which still holds what it has passed on
                Process(13, 2, (second,)),
                Process(12, 2, (first,)),
                Process(14, 3, (first,)),  # what rank 0 has forked
            ]
        )
        self.assertEqual(len(found), 1)
        (one,) = found
        self.assertEqual((one.process, one.test, one.idle), (10, "m.T.test", False))
        self.assertEqual([rank.pid for rank in one.ranks], [12, 13])
        self.assertEqual([len(rank.calls) for rank in one.ranks], [1, 0])
        self.assertIsNone(one.ranks[1].began_s)

    def test_end(self) -> None:
        """A rank that is done with its test says so, and forgets it with the next."""
        writer, held = self.log(0)
        steps: list[tuple[Callable[[], object], bool]]
        steps = [(writer.begin_test, False), (writer.end_test, True), (writer.clear, False)]
        for step, ended in steps:
            step()
            with self.subTest(ended=ended):
                self.assertIs(seen([Process(10, 0, (held,))])[0].ranks[0].ended, ended)

    def test_closed(self) -> None:
        """A log that is closed meanwhile is left out."""
        held = HeldLog("processes-7", 0, 1, "/proc/self/fd/no")
        self.assertEqual(seen([Process(10, 0, (held,))]), [])

    def test_idle_sets(self) -> None:
        """Of two sets of a process that which runs a test is shown; where none does, all are."""
        idle = SeenSet(10, "m.T.old", (SeenRank(0, began_s=1.0, ended=True),))
        busy = SeenSet(10, "m.T.new", (SeenRank(0, began_s=1.0), SeenRank(1, began_s=1.0, ended=True)))
        self.assertEqual(list(of_process([idle, busy], 10)), [busy])
        self.assertEqual(list(of_process([idle], 10)), [idle])
        self.assertEqual(list(of_process([idle, busy], 11)), [])


if __name__ == "__main__":
    unittest.main()
