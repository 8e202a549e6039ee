"""Tests the barrier between processes that know each other only by files."""

from __future__ import annotations

import os
import tempfile
import unittest

from harness.dropin import barrier

# Seconds; long enough for a fork on a busy machine.
PATIENT_S = 300.0


class Meeting(unittest.TestCase):
    """``meet``, at which forked processes wait for each other."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = os.path.join(directory.name, "barrier")
        os.mkdir(self.place)

    def peer(self, turns: int, wait_for: int) -> int:
        """Starts a process that meets ``turns`` times and exits 0 if all others came each time."""
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            for turn in range(1, turns + 1):
                barrier.meet(self.place, turn, wait_for, PATIENT_S)
            code = 0
        finally:
            os._exit(code)

    def test_all_come_every_time(self) -> None:
        pids = [self.peer(turns=20, wait_for=3) for _ in range(3)]
        self.assertEqual([os.waitpid(pid, 0)[1] for pid in pids], [0, 0, 0])

    def test_nobody_leaves_before_the_last_has_come(self) -> None:
        pid = self.peer(turns=1, wait_for=2)
        self.assertEqual(os.waitpid(pid, os.WNOHANG), (0, 0))
        barrier.meet(self.place, 1, 2, PATIENT_S)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_one_that_is_ahead_counts(self) -> None:
        with open(os.path.join(self.place, "1"), "w") as file:
            file.write("7")
        barrier.meet(self.place, 3, 2, PATIENT_S)
        self.assertEqual(sorted(os.listdir(self.place)), sorted(["1", str(os.getpid())]))

    def test_one_that_is_behind_does_not(self) -> None:
        with open(os.path.join(self.place, "1"), "w") as file:
            file.write("2")
        with self.assertRaisesRegex(RuntimeError, "barrier timeout: 1 of 2 came within 0 s"):
            barrier.meet(self.place, 3, 2, 0.0)

    def test_leaves_no_descriptor_open(self) -> None:
        before = len(os.listdir("/proc/self/fd"))
        barrier.meet(self.place, 1, 1, PATIENT_S)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


if __name__ == "__main__":
    unittest.main()
