"""Programs whose ranks give arguments to a collective or a message that do not match."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from suites.selftest.communication.programs.program import KEPT, PROCESSES, STARTED, Kind, Table

TABLE = Table()
bug = TABLE.bug


# -- element counts and dtypes


@bug(
    4,
    Kind.DEADLOCKED_OR_ERROR,
    "rank 1",
    "(3,) float32",
    "all_reduce #1",
    "{guilty}",
    "ranks 0, 2, 3",
    "(2,) float32",
    guilty=[1],
    modes=KEPT,
)
def counts_differ_in_all_reduce(rank: int, world_size: int) -> None:
    """Rank 1 reduces three elements, the others two."""
    dist.all_reduce(torch.ones(3 if rank == 1 else 2))  # guilty


@bug(2, Kind.ERROR, "rank 0", "(4,) float32", "rank 1", "(2,) float32", "broadcast #1", "{guilty}")
def counts_differ_in_broadcast(rank: int, world_size: int) -> None:
    """Rank 0 broadcasts more than rank 1 takes."""
    dist.broadcast(torch.ones(4 if rank == 0 else 2), src=0)  # guilty


@bug(
    3,
    Kind.ERROR,
    "rank 2",
    "(5,) float32",
    "all_gather #1",
    "ranks 0, 1",
    "(4,) float32",
    "{guilty}",
    guilty=[2],
)
def counts_differ_in_all_gather(rank: int, world_size: int) -> None:
    """Rank 2 gathers one element more from each rank than its peers do."""
    mine = torch.ones(5 if rank == 2 else 4)
    dist.all_gather([torch.zeros_like(mine) for _ in range(world_size)], mine)  # guilty


@bug(
    3,
    Kind.ERROR,
    "rank 0",
    "float64",
    "all_reduce #1",
    "ranks 1, 2",
    "float32",
    "{guilty}",
    guilty=[0],
    modes=STARTED,
)
def dtypes_differ_in_all_reduce(rank: int, world_size: int) -> None:
    """Rank 0 reduces in double precision."""
    dist.all_reduce(torch.ones(2, dtype=torch.float64 if rank == 0 else torch.float32))  # guilty


@bug(3, Kind.ERROR, "rank 2", "int32", "broadcast #1", "ranks 0, 1", "float32", "{guilty}", guilty=[2])
def dtypes_differ_in_broadcast(rank: int, world_size: int) -> None:
    """Rank 2 takes floating-point numbers for integers of the same size, which no backend notices."""
    dist.broadcast(torch.zeros(2, dtype=torch.int32 if rank == 2 else torch.float32), src=0)  # guilty


@bug(2, Kind.ERROR, "rank 0", "(4,) float32", "rank 1", "(2,) float32", "{guilty}", "{waits}")
def counts_differ_in_a_message(rank: int, world_size: int) -> None:
    """Rank 0 sends more than rank 1 has room for."""
    if rank == 0:
        dist.send(torch.ones(4), dst=1)  # guilty
    else:
        dist.recv(torch.zeros(2), src=0)  # waits


@bug(2, Kind.ERROR, "rank 0", "int32", "rank 1", "float32", "{guilty}", "{waits}")
def dtypes_differ_in_a_message(rank: int, world_size: int) -> None:
    """Rank 0 sends integers that rank 1 takes for floating-point numbers."""
    if rank == 0:
        dist.send(torch.ones(4, dtype=torch.int32), dst=1)  # guilty
    else:
        dist.recv(torch.zeros(4), src=0)  # waits


# -- reduce operations


@bug(
    4,
    Kind.ERROR,
    "rank 2 reduces with MAX",
    "ranks 0, 1, 3 with SUM",
    "in all_reduce #2",
    "{guilty}",
    guilty=[2],
    modes=STARTED,
)
def reduce_ops_differ(rank: int, world_size: int) -> None:
    """Rank 2 takes the maximum where the others add."""
    dist.all_reduce(torch.ones(2))
    op = dist.ReduceOp.MAX if rank == 2 else dist.ReduceOp.SUM
    dist.all_reduce(torch.full((2,), float(rank)), op=op)  # guilty


@bug(3, Kind.ERROR, "rank 0 reduces with PRODUCT", "ranks 1, 2 with SUM", "{guilty}", guilty=[0])
def reduce_ops_differ_async(rank: int, world_size: int) -> None:
    """Rank 0 multiplies where the others add, asynchronously."""
    op = dist.ReduceOp.PRODUCT if rank == 0 else dist.ReduceOp.SUM
    work = dist.all_reduce(torch.ones(2), op=op, async_op=True)  # guilty
    assert work is not None
    work.wait()


@bug(2, Kind.ERROR, "rank 0", "MIN", "rank 1", "SUM", "reduce_scatter", "{guilty}", modes=PROCESSES)
def reduce_ops_differ_in_reduce_scatter(rank: int, world_size: int) -> None:
    """One rank adds and one takes the minimum of what they reduce and scatter."""
    op = dist.ReduceOp.SUM if rank == 1 else dist.ReduceOp.MIN
    dist.reduce_scatter_tensor(torch.zeros(2), torch.ones(4), op=op)  # guilty


# -- roots


@bug(
    3,
    Kind.DEADLOCKED_OR_ERROR,
    "rank 2",
    "broadcast #1",
    "takes rank 2 for the root | root 2 | root is rank 2",
    "{guilty}",
    guilty=[2],
)
def roots_differ_in_broadcast(rank: int, world_size: int) -> None:
    """Rank 2 takes itself for the root."""
    dist.broadcast(torch.ones(2), src=2 if rank == 2 else 0)  # guilty


@bug(
    4,
    Kind.DEADLOCKED_OR_ERROR,
    "rank 1",
    "reduce #1",
    "takes rank 1 for the root | root 1 | root is rank 1",
    "{guilty}",
    guilty=[1],
)
def roots_differ_in_reduce(rank: int, world_size: int) -> None:
    """Rank 1 reduces to itself, the others to rank 0."""
    dist.reduce(torch.ones(2), dst=1 if rank == 1 else 0)  # guilty


@bug(2, Kind.DEADLOCKED_OR_ERROR, "rank 0", "rank 1", "gather #1", "{guilty}")
def roots_differ_in_gather(rank: int, world_size: int) -> None:
    """Each rank gathers to itself."""
    dist.gather(torch.ones(2), [torch.zeros(2) for _ in range(world_size)], dst=rank)  # guilty
    dist.barrier()


@bug(3, Kind.DEADLOCKED_OR_ERROR, "rank 0", "scatter #1", "ranks 1, 2", "{guilty} | {waits}", guilty=[0])
def roots_differ_in_scatter(rank: int, world_size: int) -> None:
    """Rank 0 scatters; its peers wait for rank 1 to do it, and so does rank 1."""
    parts = [torch.ones(2) for _ in range(world_size)]
    if rank == 0:
        dist.scatter(torch.zeros(2), parts, src=0)  # guilty
    else:
        dist.scatter(torch.zeros(2), parts if rank == 1 else None, src=1)  # waits
    dist.barrier()


# -- splits


@bug(2, Kind.ERROR, "rank 0", "rank 1", "all_to_all", "1", "3", "{guilty}")
def splits_differ(rank: int, world_size: int) -> None:
    """Rank 0 sends three elements to rank 1, which expects one."""
    sends = [1, 3] if rank == 0 else [1, 1]
    takes = [1, 1]
    dist.all_to_all_single(torch.zeros(2), torch.ones(sum(sends)), takes, sends)  # guilty


@bug(3, Kind.ERROR, "rank 2", guilty=[2])
def all_to_all_sizes_differ(rank: int, world_size: int) -> None:
    """Rank 2 sends four elements to rank 1, which has room for two."""
    sends = [torch.ones(4 if (rank, peer) == (2, 1) else 2) for peer in range(world_size)]
    dist.all_to_all([torch.zeros(2) for _ in range(world_size)], sends)  # guilty


# -- object collectives


@bug(
    3,
    Kind.DEADLOCKED,
    "rank 2 left the test",
    "ranks 0, 1 wait in all_gather_object #1",
    "{waits}",
    guilty=[2],
    modes=KEPT,
)
def object_gather_left_out(rank: int, world_size: int) -> None:
    """Rank 2 does not gather the objects."""
    gathered: list[Any] = [None] * world_size
    if rank != 2:
        dist.all_gather_object(gathered, {"rank": rank})  # waits


@bug(
    2,
    Kind.DEADLOCKED_OR_ERROR,
    "rank 0",
    "broadcast_object_list",
    "rank 1",
    "all_gather_object",
    "{guilty}",
    "{waits}",
)
def object_calls_differ(rank: int, world_size: int) -> None:
    """Rank 0 broadcasts objects where rank 1 gathers them."""
    objects: list[Any] = [{"rank": rank}, None]
    if rank == 0:
        dist.broadcast_object_list(objects, src=0)  # guilty
    else:
        dist.all_gather_object(objects, "mine")  # waits
    dist.barrier()


@bug(3, Kind.ERROR, "rank 1", "broadcast_object_list", "{guilty}", guilty=[1])
def object_lists_differ(rank: int, world_size: int) -> None:
    """Rank 1 expects three objects where two are broadcast."""
    objects: list[Any] = ["a", "b"] if rank == 0 else [None] * (3 if rank == 1 else 2)
    # Fills what torch leaves uninitialized: the third object's size, which was gigabytes now and then.
    torch.use_deterministic_algorithms(True)
    try:
        dist.broadcast_object_list(objects, src=0)  # guilty
    finally:
        torch.use_deterministic_algorithms(False)
