"""Programs on a process group that is written in Python, whose methods hide torch's."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from suites.selftest.communication.programs.program import KEPT, Kind, Table
from suites.targets import python_gloo

TABLE = Table()
bug = TABLE.bug


@bug(
    3,
    Kind.DEADLOCKED,
    "rank 1 left the test after all_reduce #1",
    "ranks 0, 2 wait in all_reduce #2",
    "{waits}",
    guilty=[1],
)
def python_group_reduces_once_less(rank: int, world_size: int) -> None:
    """Rank 1 leaves out the second reduction."""
    group = dist.new_group(backend=python_gloo.NAME)
    for _ in range(1 if rank == 1 else 2):
        dist.all_reduce(torch.ones(2), group=group)  # waits


@bug(3, Kind.ERROR, "rank 2 reduces with MAX", "ranks 0, 1 with SUM", "{guilty}", guilty=[2])
def python_group_reduce_ops_differ(rank: int, world_size: int) -> None:
    """Rank 2 takes the maximum, asynchronously."""
    group = dist.new_group(backend=python_gloo.NAME)
    kind = dist.ReduceOp.MAX if rank == 2 else dist.ReduceOp.SUM
    work = dist.all_reduce(torch.ones(2), kind, group=group, async_op=True)  # guilty
    assert work is not None
    work.wait()


@bug(2, Kind.WARNING, "nobody waited for the work of all_reduce #1", "{guilty}")
def python_group_is_not_waited_for(rank: int, world_size: int) -> None:
    """Nobody waits for a reduction."""
    group = dist.new_group(backend=python_gloo.NAME)
    dist.all_reduce(torch.ones(2), group=group, async_op=True)  # guilty
    dist.barrier(group=group)


@TABLE.right(2, modes=KEPT)
def python_group_is_used(rank: int, world_size: int) -> None:
    """All ranks reduce, broadcast and train with waits, which write to tensors by operators."""
    group = dist.new_group(backend=python_gloo.NAME)
    tensor = torch.ones(2)
    for work in (dist.all_reduce(tensor, group=group, async_op=True), dist.barrier(group, async_op=True)):
        assert work is not None
        work.wait()
    model = DistributedDataParallel(nn.Linear(2, 2), process_group=group)
    model(torch.ones(1, 2)).sum().backward()
