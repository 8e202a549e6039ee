"""Tests the store of a host: it serves at one address, and ends with the process that started it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import unittest

from torch.distributed import TCPStore

from harness.hosts.connection import HostGone, dial
from harness.hosts.handshake import Purpose
from suites.selftest.forked_case import ForkedCase

# Prints the store's port, and ends when its standard input does.
_STARTS = """\
import sys
import torch.distributed
from harness.agent import store
pid, port = store.start("127.0.0.9")
print(pid, port, flush=True)
sys.stdin.read()
"""


class StoreTest(ForkedCase):
    """A store that another process has started."""

    def setUp(self) -> None:
        self.starter = subprocess.Popen(
            [sys.executable, "-c", _STARTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(self.starter.communicate)
        assert self.starter.stdout is not None
        self.pid, self.port = map(int, self.starter.stdout.readline().split())

    def test_serves_at_its_address_alone(self) -> None:
        """What one client sets another gets; at another address there is nobody."""
        clients = [
            TCPStore("127.0.0.9", self.port, is_master=False, wait_for_workers=False) for _ in range(2)
        ]
        clients[0].set("key", "value")
        self.assertEqual(clients[1].get("key"), b"value")
        with self.assertRaisesRegex(HostGone, "cannot be reached"):
            dial("127.0.0.1", self.port, b"k" * 32, Purpose.SESSION)

    def test_ends_with_its_starter(self) -> None:
        """When the process that started it is killed, it ends."""
        pidfd = os.pidfd_open(self.pid)
        self.addCleanup(os.close, pidfd)
        self.starter.kill()
        os.waitid(os.P_PID, self.starter.pid, os.WEXITED | os.WNOWAIT)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        self.assertTrue(poll.poll(300_000))


if __name__ == "__main__":
    unittest.main()
