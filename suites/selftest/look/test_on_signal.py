"""Tests SIGUSR1 to ``torch-harness run``."""

from __future__ import annotations

import signal
import unittest

from harness.look.on_signal import SIGNAL, shown_on_signal
from suites.selftest.look.blocked import Blocked
from suites.selftest.runner.test_interrupts import read_until

SCRIPT = """
import torch.distributed as dist
from test_blocked import wait_in_c
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    assert wait_in_c() == (1, 0)
dist.barrier()
print("went on")
"""


class RunTest(unittest.TestCase):
    """A script on ranks."""

    def test_signal(self) -> None:
        """Where each rank of the script is, printed while it runs; it then ends as it would have."""
        blocked = Blocked(self, "-m", "harness.run", "-n", "2", "script.py", script=SCRIPT)
        blocked.await_wait()
        blocked.process.send_signal(signal.SIGUSR1)
        said = read_until(blocked.process, lambda line: "rank 1: in no communication" in line)
        self.assertRegex(said, r"script\.py for [0-9.]+ s \(process \d+, 2 ranks\)")
        self.assertRegex(said, "rank 0: waiting in barrier #1 of the default group .*, for rank 1")
        self.assertEqual(blocked.go_on().count("went on"), 2)
        self.assertEqual(blocked.process.returncode, 0)


class HandlerTest(unittest.TestCase):
    """The handler of this process."""

    def test_restored(self) -> None:
        """It is as before when the context is left."""
        before = signal.getsignal(SIGNAL)
        with shown_on_signal("x"):
            self.assertTrue(callable(signal.getsignal(SIGNAL)))
        self.assertEqual(signal.getsignal(SIGNAL), before)


if __name__ == "__main__":
    unittest.main()
