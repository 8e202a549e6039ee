"""Programs of which the whole cause line is known, word by word: one for each form that it can have."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

from suites.selftest.communication.programs.program import FRESH, KEPT, STARTED, Kind, Table

TABLE = Table()
bug = TABLE.bug


@bug(
    4,
    Kind.DEADLOCKED,
    "cause: rank 0 left the test after all_reduce #5 of the default group; "
    "ranks 1-3 wait in all_reduce #6 ({waits} in leaves_after_five)",
    guilty=[0],
    modes=STARTED,
)
def leaves_after_five(rank: int, world_size: int) -> None:
    """Rank 0 has a step less than its peers."""
    for _ in range(5 if rank == 0 else 6):
        dist.all_reduce(torch.ones(4))  # waits


def step() -> None:
    """Takes longer than any deadline."""
    time.sleep(3600)


@bug(
    4,
    Kind.TIMED_OUT,
    "cause: rank 2 never came to barrier #4: it is at sentences.py:"
    f"{step.__code__.co_firstlineno + 2} in step; ranks 0, 1, 3 wait in barrier #4 "
    "({waits} in never_comes)",
    guilty=[2],
    modes=KEPT,
)
def never_comes(rank: int, world_size: int) -> None:
    """Rank 2 is in a function of its own after three barriers."""
    for number in range(4):
        if rank == 2 and number == 3:
            step()
        dist.barrier()  # waits


@bug(
    4,
    Kind.DEADLOCKED_OR_ERROR,
    "cause: rank 1 reduces (3,) float32 in all_reduce #1 ({guilty} in reduces_more), "
    "ranks 0, 2, 3 (2,) float32",
    guilty=[1],
    modes=(FRESH,),
)
def reduces_more(rank: int, world_size: int) -> None:
    """Rank 1 gives an element more."""
    dist.all_reduce(torch.ones(3 if rank == 1 else 2))  # guilty


@bug(
    4,
    Kind.ERROR,
    "cause: rank 2 reduces with MAX, ranks 0, 1, 3 with SUM, in all_reduce #7 "
    "({guilty} in takes_the_maximum)",
    guilty=[2],
    modes=STARTED,
)
def takes_the_maximum(rank: int, world_size: int) -> None:
    """Rank 2 takes the maximum in the last of seven steps."""
    for number in range(7):
        op = dist.ReduceOp.MAX if rank == 2 and number == 6 else dist.ReduceOp.SUM
        dist.all_reduce(torch.ones(4), op=op)  # guilty


@bug(
    4,
    Kind.DEADLOCKED,
    "cause: ranks 0 -> 1 -> 2 -> 3 -> 0 wait for each other in recv ({waits} in receives_first)",
    modes=KEPT,
)
def receives_first(rank: int, world_size: int) -> None:
    """Every rank receives from the next one before it sends to the one before."""
    tensor = torch.ones(2)
    dist.recv(tensor, src=(rank + 1) % world_size)  # waits
    dist.send(tensor, dst=(rank - 1) % world_size)


@bug(
    4,
    Kind.DEADLOCKED,
    "cause: rank 3 calls all_reduce on groups {{0, 1, 2, 3}} made at {second}, "
    "{{0, 1, 2, 3}} made at {first} ({guilty} in crosses_groups), "
    "ranks 0-2 on {{0, 1, 2, 3}} made at {first}, {{0, 1, 2, 3}} made at {second}",
    guilty=[3],
    modes=STARTED,
)
def crosses_groups(rank: int, world_size: int) -> None:
    """Rank 3 reduces over two groups in the other order."""
    groups = [
        dist.new_group(),  # first
        dist.new_group(),  # second
    ]
    for group in reversed(groups) if rank == 3 else groups:
        dist.all_reduce(torch.ones(1), group=group)  # guilty
