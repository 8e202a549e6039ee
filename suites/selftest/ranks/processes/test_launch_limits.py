"""Tests what is said, before a launch, of limits that have no room for its ranks."""

from __future__ import annotations

import errno
import os
import resource
import unittest
from unittest import mock

import psutil

from harness.ranks.processes import launch_limits
from harness.system import control_group

MANY = launch_limits.FEW + 1


class RoomTest(unittest.TestCase):
    """``why_no_descriptors`` and ``why_no_processes``."""

    def test_descriptors(self) -> None:
        """The text has how many are needed, the limit, and what to do."""
        error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        for limits, says in (
            ((1024, 4096), "take 2050, and the limit is 1024: raise it (ulimit -n, at most 4096)"),
            ((1024, resource.RLIM_INFINITY), "the limit is 1024: raise it (ulimit -n)"),
        ):
            with self.subTest(limits), mock.patch.object(resource, "getrlimit", return_value=limits):
                text = launch_limits.why_no_descriptors(256, error)
                self.assertIn("no descriptors for 256 ranks: [Errno 24] Too many open files", text)
                self.assertTrue(text.endswith(says), text)

    def test_control_group(self) -> None:
        """The limit of the control group counts, where there is one; few ranks are not counted."""
        for left, ranks, says in (
            (10, MANY, f"{MANY} ranks are as many processes, and there is room for 10 more: raise pids.max"),
            (0, launch_limits.FEW, ""),
            (MANY, MANY, ""),
            (None, MANY, ""),
        ):
            with (
                self.subTest(left=left, ranks=ranks),
                mock.patch.object(control_group, "processes_left", return_value=left),
                mock.patch.object(os, "getuid", return_value=0),
            ):
                text = launch_limits.why_no_processes(ranks)
                self.assertIn(says, text)
                self.assertEqual(bool(says), bool(text))

    def test_user(self) -> None:
        """A user's own limit counts with all of the user's threads, but not for root."""
        processes = [mock.Mock(info={"uids": mock.Mock(real=user), "num_threads": 3}) for user in (0, 7, 7)]
        for user, limit, says in (
            (7, 2 * 3 + MANY - 1, f"room for {MANY - 1} more: raise ulimit -u"),
            (7, 2 * 3 + MANY, ""),
            (7, resource.RLIM_INFINITY, ""),
            (0, 1, ""),
        ):
            with (
                self.subTest(user=user, limit=limit),
                mock.patch.object(resource, "getrlimit", return_value=(limit, limit)),
                mock.patch.object(os, "getuid", return_value=user),
                mock.patch.object(control_group, "processes_left", return_value=None),
                mock.patch.object(psutil, "process_iter", return_value=processes),
            ):
                text = launch_limits.why_no_processes(MANY)
                self.assertIn(says, text)
                self.assertEqual(bool(says), bool(text))


if __name__ == "__main__":
    unittest.main()
