"""Tests that a value of a process is made once there and is not shared with its forks."""

from __future__ import annotations

import unittest
from unittest import mock

from harness.system import per_process
from harness.system.per_process import PerProcess


class PerProcessTest(unittest.TestCase):
    """``PerProcess``, which holds one value for each process."""

    def test_fork_has_its_own(self) -> None:
        """Each process makes its own value, once, when it is asked for."""
        holder = PerProcess(list[int])
        self.assertIsNone(holder.held())
        mine = holder.get()
        self.assertIs(holder.get(), mine)
        self.assertIs(holder.held(), mine)
        with mock.patch.object(per_process, "getpid", return_value=-1):
            self.assertIsNone(holder.held())
            self.assertIsNot(holder.get(), mine)
        self.assertIs(holder.get(), mine)


if __name__ == "__main__":
    unittest.main()
