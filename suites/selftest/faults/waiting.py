"""A case whose ranks wait for ever once they have said that they are there, for tests that kill something."""

from __future__ import annotations

import os
import signal

import torch
import torch.distributed as dist

from harness import DistributedTestBase
from suites.selftest.faults.base import announce


class Waits(DistributedTestBase):
    """Two ranks with a process group."""

    world_size = 2

    def test_waits(self) -> None:
        """Both ranks say that they are there, and wait for ever."""
        self.create_pg("cpu")
        dist.barrier()
        announce(os.getpid())
        while True:
            signal.pause()

    def test_passes(self) -> None:
        """The ranks add up what they have."""
        self.create_pg("cpu")
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor, torch.tensor([3.0]))
