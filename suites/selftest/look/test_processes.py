"""Tests which processes are found below one, and which call logs they hold."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

from harness.communication import call_log
from harness.errors import UsageError
from harness.look.processes import below, held_logs


class ProcessesTest(unittest.TestCase):
    """Real processes, and real memory files."""

    def hold(self, of: str, rank: int) -> int:
        """Opens the memory file of a log, and returns its descriptor."""
        memory = call_log.memory_file(of, rank)
        self.addCleanup(os.close, memory)
        return memory

    def test_held_logs(self) -> None:
        """A log is told once, however often it is open, with its set and its rank; other files are none."""
        memory = self.hold("processes-1000001", 3)
        self.addCleanup(os.close, os.dup(memory))
        self.hold("", 0)  # no set's
        found = {(log.of, log.rank) for log in held_logs(os.getpid()) if "1000001" in log.of}
        self.assertEqual(found, {("processes-1000001", 3)})
        self.assertEqual([log.file for log in held_logs(os.getpid())].count(os.fstat(memory).st_ino), 1)

    def test_below(self) -> None:
        """A child comes after its parent, and holds the logs that it was given."""
        memory = self.hold("processes-1000002", 1)
        child = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[memory], text=True
        )
        self.addCleanup(child.communicate, "\n")
        found = below(os.getpid())
        self.assertEqual((found[0].pid, found[0].depth), (os.getpid(), 0))
        one = next(process for process in found if process.pid == child.pid)
        self.assertEqual((one.depth, [log.of for log in one.logs]), (1, ["processes-1000002"]))

    def test_no_process(self) -> None:
        """A process that there is not is the user's mistake, and one that is gone holds nothing."""
        child = subprocess.Popen(["true"])
        child.wait()
        with self.assertRaisesRegex(UsageError, f"there is no process {child.pid}"):
            below(child.pid)
        self.assertEqual(list(held_logs(child.pid)), [])


if __name__ == "__main__":
    unittest.main()
