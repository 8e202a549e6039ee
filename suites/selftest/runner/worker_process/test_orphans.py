"""Tests that orphans are reaped when they end, and killed when their grace is over."""

from __future__ import annotations

import os
import subprocess
import unittest
from collections.abc import Collection
from unittest import mock

from harness.runner.worker_process import orphans
from harness.runner.worker_process.orphans import Orphans
from harness.system import posix


def is_there(pid: int) -> bool:
    """Whether the process has not been reaped."""
    return os.path.exists(f"/proc/{pid}")


class OrphansTest(unittest.TestCase):
    """``Orphans`` of processes that a test starts."""

    def setUp(self) -> None:
        self.children: list[int] = []
        patch = mock.patch.object(posix, "children", lambda: [*filter(is_there, self.children)])
        patch.start()
        self.addCleanup(patch.stop)

    def started(self, *command: str) -> int:
        """A child, which ends with this test at the latest."""
        process = subprocess.Popen(command)
        self.addCleanup(process.wait)  # what the orphans have reaped is gone without an error
        self.addCleanup(process.kill)
        self.children.append(process.pid)
        return process.pid

    def noted(self, workers: Collection[int] = ()) -> Orphans:
        """The children that are there now, as orphans."""
        found = Orphans(workers)
        found.note()
        return found

    def test_none(self) -> None:
        """Workers are no orphans: nothing is to be waited for, and nothing is ended."""
        worker = self.started("sleep", "3600")
        found = self.noted({worker})
        self.assertFalse(found)
        self.assertIsNone(found.timeout_s())
        found.end()
        self.assertTrue(is_there(worker))

    def test_in_its_grace(self) -> None:
        """One that works on is left alone until its grace is over, and looked at until then."""
        pid = self.started("sleep", "3600")
        with mock.patch.object(orphans, "GRACE_S", 3600.0):
            found = self.noted()
            found.end()
            self.assertTrue(found)
            self.assertEqual(found.timeout_s(), 360.0)
        self.assertTrue(is_there(pid))

    def test_overdue(self) -> None:
        """Then it is killed and reaped; the grace of one that comes later is its own."""
        with mock.patch.object(orphans, "GRACE_S", -1.0):
            late = self.started("sleep", "3600")
            found = self.noted()
            self.assertEqual(found.timeout_s(), 0.0)
        later = self.started("sleep", "3600")
        found.end()
        self.assertEqual((is_there(late), is_there(later), bool(found)), (False, True, True))

    def test_ended(self) -> None:
        """One that has ended by itself is reaped in its grace; another may have been, by somebody else."""
        ended, reaped = self.started("true"), self.started("true")
        os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
        found = self.noted()
        os.waitpid(reaped, 0)
        found.end()
        self.assertEqual((is_there(ended), bool(found)), (False, False))


if __name__ == "__main__":
    unittest.main()
