"""Faults in and around collectives and rendezvous. The one module here that imports torch."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from suites.selftest.faults.base import FaultyCase


class Collectives(FaultyCase):
    """Rank 1 goes wrong, rank 0 waits for it in a collective."""

    arrivals = 2

    def make_group(self) -> None:
        """The default group, over the case's file."""
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)

    def meet_and_go_on(self) -> None:
        """Both ranks have a working group; what follows is the fault."""
        self.make_group()
        dist.all_reduce(torch.ones(1))
        self.arrive()

    def test_fails(self) -> None:
        """Before its peer's all-reduce."""
        self.meet_and_go_on()
        if self.rank == 1:
            self.fail("rank 1 will not reduce")
        dist.all_reduce(torch.ones(1))

    def test_dies(self) -> None:
        """So its peer sees a closed connection, perhaps first."""
        self.meet_and_go_on()
        if self.rank == 1:
            os._exit(4)
        dist.all_reduce(torch.ones(1))

    def test_hangs(self) -> None:
        """Rank 1 passes; rank 0 waits in an all-reduce until the deadline."""
        self.meet_and_go_on()
        if self.rank == 0:
            dist.all_reduce(torch.ones(1))

    def test_mismatch(self) -> None:
        """Different collectives at the same place."""
        self.meet_and_go_on()
        if self.rank == 0:
            dist.barrier()
        else:
            dist.broadcast(torch.ones(1 << 16), src=0)

    def test_skips(self) -> None:
        """Before its peer's all-reduce."""
        self.meet_and_go_on()
        if self.rank == 1:
            self.skipTest("not on rank 1")
        dist.all_reduce(torch.ones(1))

    def test_wrong_result(self) -> None:
        """Both compare tensors, and both find the same."""
        self.meet_and_go_on()
        total = torch.ones(3)
        dist.all_reduce(total)
        self.assertEqual(total, torch.zeros(3))

    def test_passes(self) -> None:
        """With a group that nobody destroys."""
        self.meet_and_go_on()
        dist.barrier()

    def test_threads(self) -> None:
        """Prints the intra-op threads that a rank has, and OMP's wish."""
        print(torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS", "unset"))
        self.arrive()

    def test_autograd_in_threads(self) -> None:
        """What deadlocks in a child of a process whose thread pools are alive."""
        self.arrive()
        weight = torch.randn(512, 512, requires_grad=True)
        (weight @ weight).sum().backward()
        self.assertIsNotNone(weight.grad)


class Rendezvous(FaultyCase):
    """Rank 1 goes wrong before there is a group."""

    arrivals = 2

    def test_fails_before_init(self) -> None:
        """Rank 0 waits in init_process_group."""
        self.arrive()
        if self.rank == 1:
            self.fail("rank 1 will not come")
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)

    def test_fails_before_set(self) -> None:
        """Rank 0 waits for a key."""
        self.arrive()
        if self.rank == 1:
            raise RuntimeError("rank 1 will not set it")
        dist.FileStore(self.file_name, self.world_size).get("a key that rank 1 should set")


class LeavesEarly(FaultyCase):
    """Ranks that are done while others still connect: nobody destroys the group or waits at a barrier."""

    world_size = 4

    def test_leave(self) -> None:
        """Ranks 2 and 3 have nothing more to do once they are connected, 0 and 1 talk to each other."""
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
