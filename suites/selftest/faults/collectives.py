"""Faulty cases in and around collectives and rendezvous."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from suites.selftest.faults.base import FaultyCase


class Collectives(FaultyCase):
    """Rank 1 goes wrong while rank 0 waits for it in a collective."""

    arrivals = 2

    def make_group(self) -> None:
        """Makes the default group over the case's rendezvous file."""
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)

    def meet_and_go_on(self) -> None:
        """Gives both ranks a working group and starts the deadline; the fault comes after this."""
        self.make_group()
        dist.all_reduce(torch.ones(1))
        self.arrive()

    def test_fails(self) -> None:
        """Rank 1 fails before the all-reduce in which rank 0 waits."""
        self.meet_and_go_on()
        if self.rank == 1:
            self.fail("rank 1 will not reduce")
        dist.all_reduce(torch.ones(1))

    def test_dies(self) -> None:
        """Rank 1 dies, so that rank 0 sees a closed connection, perhaps before anybody else notices."""
        self.meet_and_go_on()
        if self.rank == 1:
            os._exit(4)
        dist.all_reduce(torch.ones(1))

    def test_skips(self) -> None:
        """Rank 1 skips before the all-reduce in which rank 0 waits."""
        self.meet_and_go_on()
        if self.rank == 1:
            self.skipTest("not on rank 1")
        dist.all_reduce(torch.ones(1))

    def test_wrong_result(self) -> None:
        """Both ranks compare tensors and find the same difference."""
        self.meet_and_go_on()
        total = torch.ones(3)
        dist.all_reduce(total)
        self.assertEqual(total, torch.zeros(3))

    def test_passes(self) -> None:
        """Both ranks pass and leave a group that nobody destroys."""
        self.meet_and_go_on()
        dist.barrier()

    def test_threads(self) -> None:
        """Prints a rank's number of intra-op threads and its OMP_NUM_THREADS."""
        print(torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS", "unset"))
        self.arrive()

    def test_autograd_in_threads(self) -> None:
        """Runs a backward pass, which deadlocks in a child forked from a process with live thread pools."""
        self.arrive()
        weight = torch.randn(512, 512, requires_grad=True)
        (weight @ weight).sum().backward()
        self.assertIsNotNone(weight.grad)


class Hangs(Collectives):
    """Ranks that wait in a collective for ever."""

    def test_hangs(self) -> None:
        """Rank 1 passes while rank 0 waits in an all-reduce."""
        self.make_group()
        dist.all_reduce(torch.ones(1))
        if self.rank == 1:
            self.leave()
        else:
            self.arrive()
            dist.all_reduce(torch.ones(1))

    def test_mismatch(self) -> None:
        """The ranks call different collectives at the same point."""
        self.meet_and_go_on()
        if self.rank == 0:
            dist.barrier()
        else:
            dist.broadcast(torch.ones(1 << 16), src=0)


class Rendezvous(FaultyCase):
    """Rank 1 goes wrong before there is a group."""

    arrivals = 2

    def test_fails_before_init(self) -> None:
        """Rank 1 fails while rank 0 waits in init_process_group."""
        self.arrive()
        if self.rank == 1:
            self.fail("rank 1 will not come")
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)

    def test_fails_before_set(self) -> None:
        """Rank 1 raises while rank 0 waits for a key in the store."""
        self.arrive()
        if self.rank == 1:
            raise RuntimeError("rank 1 will not set it")
        dist.FileStore(self.file_name, self.world_size).get("a key that rank 1 should set")


class LeavesEarly(FaultyCase):
    """Ranks that are done while others still connect; none destroys the group or waits at a barrier."""

    world_size = 4

    def test_leave(self) -> None:
        """Ranks 2 and 3 are done once they are connected; ranks 0 and 1 exchange a message."""
        dist.init_process_group(
            "gloo",
            store=dist.FileStore(self.file_name, self.world_size),
            rank=self.rank,
            world_size=self.world_size,
        )
        if self.rank == 0:
            dist.send(torch.ones(1), dst=1)
        elif self.rank == 1:
            dist.recv(torch.zeros(1), src=0)
