"""Cases whose ranks meet by a process group of the harness's, for runs over several hosts."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess

import torch
import torch.distributed as dist

from harness import DistributedTestBase, MultiProcContinuousTest, MultiProcessTestCase, requires_hosts

# Seconds. Longer than any deadline of these tests.
LONG_S = 3600


class Meets(DistributedTestBase):
    """Two ranks with a process group."""

    world_size = 2

    def setUpRank(self) -> None:
        """Makes the process group."""
        self.create_pg("cpu")

    def test_sum(self) -> None:
        """The ranks add up what they have."""
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor, torch.tensor([3.0]))

    @requires_hosts(2)
    def test_on_two_hosts(self) -> None:
        """The ranks add up, each on a host of its own."""
        self.test_sum()

    @requires_hosts(3)
    def test_on_three_hosts(self) -> None:
        """Two ranks cannot be on three hosts."""

    def test_killed(self) -> None:
        """Rank 1 is killed while rank 0 waits for it."""
        if self.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()

    def test_deadlock(self) -> None:
        """Rank 1 leaves rank 0 in a barrier."""
        if self.rank == 0:
            dist.barrier()

    def test_hangs_in_c(self) -> None:
        """Rank 1 holds the interpreter's lock for ever."""
        if self.rank == 1:
            ctypes.PyDLL(None).sleep(LONG_S)
        dist.barrier()

    def test_prints(self) -> None:
        """Each rank prints more than is kept, and rank 1 fails."""
        for _ in range(64):
            print("x" * 4096)
        print(f"the last line of rank {self.rank}")
        self.assertEqual(self.rank, 0)

    def test_leaves_a_process(self) -> None:
        """Rank 1 leaves a process behind."""
        if self.rank == 1:
            subprocess.Popen(["sleep", str(LONG_S)])


class MeetsAtAFile(MultiProcessTestCase):
    """Two ranks that insist on the file of the test."""

    world_size = 2

    def test_file(self) -> None:
        """Each rank sees what the other has written."""
        store = dist.FileStore(self.file_name, 2)
        store.set(str(self.rank), "here")
        self.assertEqual(store.get(str(1 - self.rank)), b"here")


class Kept(MultiProcContinuousTest):
    """Two pooled ranks that keep their process group."""

    world_size = 2

    @classmethod
    def backend_str(cls) -> str:
        """The backend of these tests."""
        return "gloo"

    def _sum(self) -> None:
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor, torch.tensor([3.0]))

    def test_a(self) -> None:
        """The ranks add up."""
        self._sum()

    def test_b(self) -> None:
        """They do so again."""
        self._sum()

    def test_c(self) -> None:
        """New ranks do so, after a failure."""
        self._sum()

    def test_fails(self) -> None:
        """Rank 1 fails."""
        self.assertEqual(self.rank, 0)


class Alone(MultiProcessTestCase):
    """Ranks that meet nobody."""

    world_size = 4

    def test_prints(self) -> None:
        """Prints which rank this is."""
        print(f"rank {self.rank} of {self.world_size}")
