"""Programs whose ranks use or make process groups in different orders, or not all of them do."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from suites.selftest.communication.programs.program import KEPT, STARTED, Kind, Table

TABLE = Table()
bug = TABLE.bug


@bug(
    4,
    Kind.WARNING,
    "ranks 2, 3 never made group {{0, 1}}",
    "which ranks 0, 1 make",
    "{guilty}",
    modes=STARTED,
)
def group_made_by_its_members(rank: int, world_size: int) -> None:
    """Ranks 0 and 1 alone make a group of themselves."""
    if rank < 2:
        pair = dist.new_group([0, 1])  # guilty
        dist.all_reduce(torch.ones(1), group=pair)
    dist.barrier()


@bug(
    4,
    Kind.WARNING,
    "rank 1 never made group {{2, 3}}",
    "which ranks 0, 2, 3 make",
    "{guilty}",
)
def group_left_out_by_one(rank: int, world_size: int) -> None:
    """Rank 1 makes only the group that it is in."""
    dist.new_group([0, 1])
    if rank != 1:
        dist.new_group([2, 3])  # guilty
    dist.barrier()


@bug(
    4,
    Kind.DEADLOCKED,
    "rank 3 waits for rank 2 in barrier #1 (",
    "rank 2 for rank 3 in all_reduce #1 of group {{2, 3}}",
    "{guilty}",
    "{waits}",
    "ranks 0, 1 wait in all_reduce #1",
)
def takes_the_other_group(rank: int, world_size: int) -> None:
    """Rank 2 reduces over the other one of the two groups that it is in."""
    three, two = dist.new_group([0, 1, 2]), dist.new_group([2, 3])
    if rank < 2:
        dist.all_reduce(torch.ones(2), group=three)
    elif rank == 2:
        dist.all_reduce(torch.ones(2), group=two)  # guilty
    dist.barrier()  # waits


@bug(
    4,
    Kind.DEADLOCKED,
    "rank 3 calls all_reduce",
    "{guilty}",
    "ranks 0-2",
    "{first}",
    "{second}",
    guilty=[3],
    modes=STARTED,
)
def crossed_groups(rank: int, world_size: int) -> None:
    """Rank 3 reduces over two groups with the same members in the other order."""
    first = dist.new_group()  # first
    second = dist.new_group()  # second
    if rank == 3:
        first, second = second, first
    dist.all_reduce(torch.ones(1), group=first)  # guilty
    dist.all_reduce(torch.ones(1), group=second)


@bug(
    2,
    Kind.DEADLOCKED,
    "rank 0",
    "rank 1",
    "all_reduce",
    "default group",
    "{{0, 1}} made at groups.py",
    modes=KEPT,
)
def crossed_with_the_default_group(rank: int, world_size: int) -> None:
    """Two ranks wait for asynchronous reductions over the default group and another one, crosswise."""
    other = dist.new_group([0, 1])
    for group in (None, other) if rank == 0 else (other, None):
        work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
        assert work is not None
        work.wait()


@bug(
    3,
    Kind.DEADLOCKED,
    "ranks 0 -> 1 -> 2 -> 0 wait for each other in all_reduce | wait for each other: rank 0 calls all_reduce",
    "group {{0, 1}}",
    "group {{1, 2}}",
    "group {{0, 2}}",
    modes=STARTED,
)
def overlapping_groups_in_a_ring(rank: int, world_size: int) -> None:
    """Each rank begins with the group that it shares with the next rank, which begins with another one."""
    pairs = [dist.new_group(sorted({low, (low + 1) % world_size})) for low in range(world_size)]
    dist.all_reduce(torch.ones(1), group=pairs[rank])
    dist.all_reduce(torch.ones(1), group=pairs[(rank - 1) % world_size])


@bug(4, Kind.DEADLOCKED, "barrier", "{{2, 3}} made at", "default group", "{waits}", modes=STARTED)
def row_against_column(rank: int, world_size: int) -> None:
    """Ranks 2 and 3 of a pair of rows wait in their row and in the default group."""
    rows = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    if rank == 3:
        dist.barrier()
    dist.barrier(group=rows[rank // 2])  # waits
    if rank != 3:
        dist.barrier()


# -- making groups apart


@bug(3, Kind.DEADLOCKED, "rank 0", "new_group", "ranks 1, 2", "{waits}", guilty=[0], modes=STARTED)
def new_group_on_some_ranks(rank: int, world_size: int) -> None:
    """Rank 0, a member, does not call new_group."""
    if rank != 0:
        group = dist.new_group([0, 1, 2])  # waits
        dist.all_reduce(torch.ones(1), group=group)


@bug(3, Kind.DEADLOCKED, "rank 2", "new_group | makes group", "{guilty}", guilty=[2], modes=STARTED)
def groups_made_in_another_order(rank: int, world_size: int) -> None:
    """Rank 2 makes two groups of three ranks in the other order than its peers."""
    orders = [[0, 1, 2], [1, 2]]
    for members in reversed(orders) if rank == 2 else orders:
        dist.new_group(members)  # guilty


@bug(3, Kind.DEADLOCKED, "rank 1", "group {{0, 1, 2}}", guilty=[1], modes=STARTED)
def one_group_less_at_first(rank: int, world_size: int) -> None:
    """Rank 1 does not make the first of two groups, in which it is no member."""
    if rank != 1:
        dist.new_group([0, 2])
    group = dist.new_group([0, 1, 2])
    dist.all_reduce(torch.ones(1), group=group)


@bug(3, Kind.DEADLOCKED, "rank 1", "init_process_group", "ranks 0, 2", "{waits}", guilty=[1])
def default_group_on_some_ranks(rank: int, world_size: int) -> None:
    """All ranks destroy the default group; rank 1 does not make it again."""
    store = dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    dist.barrier()
    dist.destroy_process_group()
    if rank != 1:
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)  # waits
        dist.barrier()


@bug(4, Kind.DEADLOCKED, "rank 3", "ranks 1, 2 wait | ranks 0-2 wait", "{waits}", guilty=[3], modes=STARTED)
def mesh_on_some_ranks(rank: int, world_size: int) -> None:
    """Rank 3 makes no device mesh."""
    if rank != 3:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))  # waits
        dist.barrier(group=mesh["tp"].get_group())


@bug(
    4,
    Kind.DEADLOCKED,
    "rank 2 left the test",
    "rank 3",
    "new_group | new_subgroups",
    "{waits}",
    guilty=[2],
    modes=STARTED,
)
def sub_groups_on_some_ranks(rank: int, world_size: int) -> None:
    """Rank 2 leaves before the groups of two are made, so that rank 3 waits for it."""
    if rank != 2:
        dist.new_subgroups(2)  # waits
