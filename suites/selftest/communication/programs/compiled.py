"""Programs whose bug is in functional collectives, in eager mode and in compiled functions."""

from __future__ import annotations

import torch
import torch._dynamo  # so that the server of the ranks has it, and no rank imports it
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from suites.selftest.communication.programs.program import Kind, Table

TABLE = Table()
bug = TABLE.bug


def total(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the sum over all ranks, for functions that are compiled."""
    return functional.all_reduce(tensor, "sum", dist.group.WORLD) + 1


def parts(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensors of all ranks, one after another."""
    return functional.all_gather_tensor(tensor, 0, dist.group.WORLD) + 1


@bug(
    3,
    Kind.DEADLOCKED,
    "rank 1 left the test",
    "ranks 0, 2",
    "all_reduce",
    "{waits} | {also}",
    guilty=[1],
)
def functional_left_out(rank: int, world_size: int) -> None:
    """Rank 1 leaves out a functional reduction."""
    if rank != 1:
        reduced = functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD)  # waits
        functional.wait_tensor(reduced)  # also


@bug(3, Kind.ERROR, "rank 2", "MAX", "ranks 0, 1", "SUM", "all_reduce", "{guilty}", guilty=[2])
def functional_reduce_ops_differ(rank: int, world_size: int) -> None:
    """Rank 2 takes the maximum in a functional reduction."""
    reduced = functional.all_reduce(torch.ones(2), "max" if rank == 2 else "sum", dist.group.WORLD)  # guilty
    functional.wait_tensor(reduced)


@bug(
    3,
    Kind.ERROR,
    "rank 1 gives (18, 2) float32 in reduce_scatter_tensor #1",
    "{guilty}",
    "ranks 0, 2 (6, 6)",
    guilty=[1],
)
def functional_scatter_dims_differ(rank: int, world_size: int) -> None:
    """Rank 1 scatters the columns of a sum, and its peers the rows."""
    dim = 1 if rank == 1 else 0
    scattered = functional.reduce_scatter_tensor(torch.ones(6, 6), "sum", dim, dist.group.WORLD)  # guilty
    functional.wait_tensor(scattered)


@bug(2, Kind.DEADLOCKED, "rank 0", "rank 1", "all_reduce", "{guilty}")
def compiled_once_more(rank: int, world_size: int) -> None:
    """Rank 0 calls a function of the eager backend once more than rank 1."""
    compiled = torch.compile(total, backend="eager")
    compiled(torch.ones(4))
    if rank == 0:
        compiled(torch.ones(4))  # guilty


@bug(2, Kind.DEADLOCKED, "rank 0", "rank 1 left the test", "all_reduce", "{waits}")
def compiled_by_aot_left_out(rank: int, world_size: int) -> None:
    """Rank 1 leaves out the call of a function of the aot_eager backend."""
    compiled = torch.compile(total, backend="aot_eager")
    if rank == 0:
        compiled(torch.ones(4))  # waits


@bug(
    3,
    Kind.DEADLOCKED_OR_ERROR,
    "rank 2",
    "all_gather",
    "ranks 0, 1",
    "all_reduce",
    "{guilty}",
    guilty=[2],
)
def compiled_otherwise(rank: int, world_size: int) -> None:
    """Rank 2 compiles another function, with another collective in its graph."""
    compiled = torch.compile(parts if rank == 2 else total, backend="aot_eager")
    compiled(torch.ones(4))  # guilty
    dist.barrier()


@bug(2, Kind.DEADLOCKED, "rank 1 left the test", "rank 0", "all_reduce", "{waits}")
def compiled_ddp_backward_left_out(rank: int, world_size: int) -> None:
    """Rank 1 leaves out the backward of a compiled model under DDP."""
    model = torch.compile(DistributedDataParallel(nn.Linear(4, 4)), backend="aot_eager")
    loss = model(torch.ones(2, 4)).sum()
    if rank == 0:
        loss.backward()  # waits
