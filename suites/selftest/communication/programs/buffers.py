"""Programs that pass, although their buffers or their work handles are used in ways that go wrong one day."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from suites.selftest.communication.programs.program import KEPT, Kind, Table

TABLE = Table()
bug = TABLE.bug


@bug(2, Kind.WARNING, "all_reduce", "{guilty}", "{waits}", modes=KEPT)
def written_while_reduced(rank: int, world_size: int) -> None:
    """Both ranks write into a tensor while it is reduced."""
    tensor = torch.ones(4)
    work = dist.all_reduce(tensor, async_op=True)  # guilty
    tensor.add_(1)
    assert work is not None
    work.wait()  # waits


@bug(3, Kind.WARNING, "rank 1", "isend | send", "{guilty}", "{waits}")
def written_while_sent(rank: int, world_size: int) -> None:
    """Rank 1 overwrites a message before it is sent."""
    tensor = torch.ones(4)
    if rank == 1:
        work = dist.isend(tensor, dst=2)  # guilty
        tensor.zero_()
        assert work is not None
        work.wait()  # waits
    elif rank == 2:
        dist.recv(tensor, src=1)


@bug(3, Kind.WARNING, "rank 0", "irecv | recv", "{guilty}", "{also}", modes=KEPT)
def two_receives_into_one_tensor(rank: int, world_size: int) -> None:
    """Rank 0 receives two messages into one tensor at the same time."""
    tensor, store = torch.full((4,), float(rank)), _get_default_store()
    if rank == 0:
        first = dist.irecv(tensor, src=1)  # guilty
        second = dist.irecv(tensor, src=2)  # also
        store.set("both are under way", "1")
        assert first is not None and second is not None
        first.wait()
        second.wait()
    else:
        store.get("both are under way")
        dist.send(tensor, dst=0)


@bug(2, Kind.WARNING, "rank 0", "all_reduce", "{guilty}", "{also}")
def overlapping_views(rank: int, world_size: int) -> None:
    """Two reductions are under way on views that share an element, on rank 0 for certain."""
    whole, store = torch.ones(5), _get_default_store()
    if rank == 1:
        store.get("two are under way")
    first = dist.all_reduce(whole[:3], async_op=True)  # guilty
    second = dist.all_reduce(whole[2:], async_op=True)  # also
    store.set("two are under way", "1")
    assert first is not None and second is not None
    first.wait()
    second.wait()


@bug(2, Kind.WARNING, "rank 0", "all_gather", "all_reduce", "{guilty}", "{also}", modes=KEPT)
def filled_while_reduced(rank: int, world_size: int) -> None:
    """Rank 0 gathers into a tensor that is being reduced, and waits at once."""
    whole, group = torch.ones(2), dist.new_group([0])
    store = _get_default_store()
    if rank == 1:
        store.get("filled")
    work = dist.all_reduce(whole, async_op=True)  # guilty
    if rank == 0:
        dist.all_gather([whole], torch.zeros(2), group=group)  # also
        store.set("filled", "1")
    assert work is not None
    work.wait()


@bug(2, Kind.WARNING, "all_reduce", "never waited for | nobody waited for", "{guilty}", modes=KEPT)
def never_waited_for(rank: int, world_size: int) -> None:
    """Nobody waits for a reduction."""
    dist.all_reduce(torch.ones(4), async_op=True)  # guilty
    dist.barrier()


@bug(2, Kind.WARNING, "all_gather_into_tensor", "never waited for | nobody waited for", "{guilty}")
def gathering_never_waited_for(rank: int, world_size: int) -> None:
    """Nobody waits for a call of a function that torch has decorated, maybe as deprecated."""
    dist.all_gather_into_tensor(torch.ones(4), torch.ones(2), async_op=True)  # guilty
    dist.barrier()


@bug(3, Kind.WARNING, "rank 2", "broadcast", "never waited for | nobody waited for", "{guilty}")
def never_waited_for_on_one_rank(rank: int, world_size: int) -> None:
    """Rank 2 alone does not wait for a broadcast."""
    tensor = torch.full((4,), float(rank))
    work = dist.broadcast(tensor, src=0, async_op=True)  # guilty
    if rank != 2:
        assert work is not None
        work.wait()
    dist.barrier()
