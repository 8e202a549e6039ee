"""Tests that processes which share a processor are seen to wait, and what time a program is given back."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from harness.fuzzing import waiting
from harness.fuzzing.waiting import Waiting, patience_after

# Runs on one processor until it is killed.
BUSY = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\nwhile True: pass"


class WaitingTest(unittest.TestCase):
    @unittest.skipUnless(Path("/proc/self/schedstat").exists(), "the system does not count it")
    def test_two_share_a_processor(self) -> None:
        with contextlib.ExitStack() as ends, Waiting() as counted:
            for _ in range(2):
                process = ends.enter_context(subprocess.Popen([sys.executable, "-c", BUSY]))
                ends.callback(process.kill)
            while counted.seconds < 0.1:  # one of the two waits whenever the other one runs
                counted.look()

    def test_what_was_waited_before_does_not_count(self) -> None:
        one, two = mock.Mock(), mock.Mock()
        with mock.patch.object(waiting, "delays", side_effect=[{one: 5.0}, {one: 6.0, two: 2.0}, {}]):
            counted = Waiting()
            self.assertEqual(counted.seconds, 0.0)
            counted.look()
            counted.look()
        self.assertEqual(counted.seconds, 2.0)

    def test_patience(self) -> None:
        """A program hangs that had its time; another one gets what it has waited."""
        self.assertIsNone(patience_after(2.0, 30.0, 30.0))
        self.assertEqual(patience_after(2.0, 30.0, 45.0), 3.5)


if __name__ == "__main__":
    unittest.main()
