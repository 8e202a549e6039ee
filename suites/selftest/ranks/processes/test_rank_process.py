"""Tests a rank as upstream's tests find it in ``self.processes``."""

from __future__ import annotations

import signal
import unittest
from unittest import mock

from harness.ranks.processes.rank_process import RankProcess
from harness.ranks.processes.rank_set import RankSet


class RankProcessTest(unittest.TestCase):
    """``RankProcess`` of rank 1, on a rank set that notes its signals."""

    def setUp(self) -> None:
        self.ranks = mock.create_autospec(RankSet, instance=True, pids=[100, 101], closed=False)
        self.process = RankProcess(self.ranks, 1)

    def test_attributes(self) -> None:
        """It has the attributes of ``multiprocessing.Process`` that tests read."""
        process = self.process
        self.assertEqual((process.rank, process.name, process.pid), (1, "process 1", 101))
        self.assertIsNone(process.exitcode)
        self.assertEqual(repr(process), "<RankProcess 1 pid=101 exitcode=None>")

    def test_signals(self) -> None:
        """terminate and kill signal this rank only."""
        self.process.terminate()
        self.process.kill()
        self.assertEqual(
            self.ranks.signal.call_args_list, [mock.call(1, signal.SIGTERM), mock.call(1, signal.SIGKILL)]
        )

    def test_ended(self) -> None:
        """A rank whose exit code is known, 0 too, is not alive and is not signalled."""
        self.assertTrue(self.process.is_alive())
        self.process.exitcode = 0
        self.assertFalse(self.process.is_alive())
        self.process.terminate()
        self.process.kill()
        self.ranks.signal.assert_not_called()

    def test_closed(self) -> None:
        """A rank whose set is closed is not signalled, because its number may be somebody else's."""
        self.ranks.closed = True
        self.process.kill()
        self.ranks.signal.assert_not_called()


if __name__ == "__main__":
    unittest.main()
