"""Right programs whose ranks do different things, or do them in threads, in turn or unevenly."""

from __future__ import annotations

import threading
import time
import unittest
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from suites.selftest.communication.programs.modules import TwoHeads
from suites.selftest.communication.programs.program import KEPT, STARTED, Table

TABLE = Table()
right = TABLE.right
check = unittest.TestCase()
# Seconds that a slow rank takes: longer than a proof takes.
SLOW_S = 1.2


@right(4, modes=STARTED)
def sub_groups_work_apart(rank: int, world_size: int) -> None:
    """Two groups call different collectives, one of them more often."""
    low, high = dist.new_group([0, 1]), dist.new_group([2, 3])
    if rank < 2:
        for _ in range(5):
            dist.all_reduce(torch.ones(2), group=low)
    else:
        dist.broadcast(torch.ones(3), src=2, group=high)
        dist.barrier(group=high)


@right(3, modes=STARTED)
def sub_group_is_destroyed(rank: int, world_size: int) -> None:
    """Two ranks destroy their group, and all go on in the default group."""
    for _ in range(2):
        group = dist.new_group([0, 1])
        if rank < 2:
            dist.all_reduce(torch.ones(2), group=group)
            dist.destroy_process_group(group)
    dist.barrier()


@right(4)
def groups_that_only_members_make(rank: int, world_size: int) -> None:
    """Each pair makes its group by itself, and one pair makes another one."""
    members = [0, 1] if rank < 2 else [2, 3]
    for _ in range(1 + rank // 2):
        group = dist.new_group(members, use_local_synchronization=True)
        dist.all_reduce(torch.ones(1), group=group)


@right(4)
def rows_of_a_mesh(rank: int, world_size: int) -> None:
    """The rows of a mesh do different amounts of work before they meet."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    for _ in range(1 + 3 * mesh.get_local_rank("dp")):
        dist.all_reduce(torch.ones(1), group=mesh["tp"].get_group())
    dist.barrier()


@right(3, modes=STARTED)
def roots_in_turn(rank: int, world_size: int) -> None:
    """Every rank is the root once of each collective that has one."""
    for root in range(world_size):
        tensor = torch.full((2,), float(rank))
        parts = [torch.full((2,), float(rank)) for _ in range(world_size)]
        dist.broadcast(tensor, src=root)
        dist.scatter(tensor, parts if rank == root else None, src=root)
        dist.gather(tensor, parts if rank == root else None, dst=root)
        dist.reduce(tensor, dst=root)


@right(3)
def root_goes_on_and_leaves(rank: int, world_size: int) -> None:
    """The root of a small broadcast leaves before a slow leaf comes for it."""
    if rank == 2:
        time.sleep(SLOW_S)
    tensor = torch.full((2,), float(rank))
    dist.broadcast(tensor, src=0)
    check.assertEqual(tensor.tolist(), [0.0, 0.0])


@right(3, modes=KEPT)
def uneven_messages(rank: int, world_size: int) -> None:
    """Rank 0 sends three messages to one peer and one to the other, before all reduce."""
    if rank == 0:
        for peer in (1, 2, 1, 1):
            dist.send(torch.ones(4), dst=peer)
    else:
        for _ in range(3 if rank == 1 else 1):
            dist.recv(torch.ones(4), src=0)
    dist.all_reduce(torch.ones(1))


@right(2)
def tags_in_another_order(rank: int, world_size: int) -> None:
    """Rank 1 waits for two tagged messages in the other order than that in which they were sent."""
    tensors = [torch.ones(2), torch.ones(2)]
    call = dist.isend if rank == 0 else dist.irecv
    for work in [call(tensors[tag], 1 - rank, tag=tag) for tag in ((0, 1) if rank == 0 else (1, 0))]:
        assert work is not None
        work.wait()


@right(2)
def large_sends_before_receives(rank: int, world_size: int) -> None:
    """Both ranks start to send more than any buffer takes, and then receive."""
    mine, theirs = torch.ones(1 << 22), torch.zeros(1 << 22)
    work = dist.isend(mine, dst=1 - rank)
    dist.recv(theirs, src=1 - rank)
    assert work is not None
    work.wait()


@right(3, modes=KEPT)
def any_source_served_late(rank: int, world_size: int) -> None:
    """Rank 0 receives from anybody; rank 1 has left, and rank 2 sends late."""
    tensor = torch.ones(2)
    if rank == 0:
        check.assertEqual(dist.recv(tensor), 2)
    elif rank == 2:
        time.sleep(SLOW_S)
        dist.send(tensor, dst=0)


@right(3)
def neighbours_exchange(rank: int, world_size: int) -> None:
    """All ranks exchange messages with both neighbours in a batch; rank 0 begins late."""
    if rank == 0:
        time.sleep(SLOW_S)
    mine, theirs = torch.ones(2), torch.zeros(2)
    exchange = [
        dist.P2POp(dist.irecv, theirs, (rank - 1) % world_size),
        dist.P2POp(dist.isend, mine, (rank + 1) % world_size),
    ]
    for work in dist.batch_isend_irecv(exchange):
        work.wait()


@right(2)
def message_that_a_thread_sends(rank: int, world_size: int) -> None:
    """Both main threads receive from each other, and a thread of rank 1 sends what rank 0 waits for."""
    tensor = torch.ones(2)
    if rank == 0:
        dist.recv(tensor, src=1)
        dist.send(tensor, dst=1)
        return
    other = threading.Timer(SLOW_S, dist.send, (torch.ones(2), 0))
    other.start()
    dist.recv(tensor, src=0)
    other.join()


@right(2)
def collectives_in_threads(rank: int, world_size: int) -> None:
    """Two threads of each rank reduce, each over its own group."""

    def work(group: Any) -> None:
        for _ in range(20):
            dist.all_reduce(torch.ones(4), group=group)

    threads = [threading.Thread(target=work, args=(dist.new_group(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@right(2)
def uneven_splits(rank: int, world_size: int) -> None:
    """Both ranks exchange parts of different sizes that match."""
    sends = [1, 3] if rank == 0 else [2, 4]
    takes = [1, 2] if rank == 0 else [3, 4]
    dist.all_to_all_single(torch.zeros(sum(takes)), torch.ones(sum(sends)), takes, sends)


@right(3)
def objects_of_different_sizes(rank: int, world_size: int) -> None:
    """The ranks gather, broadcast and scatter objects of different sizes."""
    gathered: list[Any] = [None] * world_size
    dist.all_gather_object(gathered, "x" * (100 * rank + 1))
    check.assertEqual([len(each) for each in gathered], [1, 101, 201])
    objects: list[Any] = [{"rank": rank}, "y" * rank]
    dist.broadcast_object_list(objects, src=2)
    dist.gather_object(objects, gathered if rank == 1 else None, dst=1)


@right(2)
def shapes_differ_and_counts_agree(rank: int, world_size: int) -> None:
    """A message and a broadcast change the shape of what they carry, as a flat buffer does."""
    tensor = torch.ones(2, 3) if rank == 0 else torch.zeros(6)
    dist.broadcast(tensor, src=0)
    if rank == 0:
        dist.send(tensor, dst=1)
    else:
        dist.recv(tensor, src=0)


@right(2, modes=STARTED)
def written_after_the_wait(rank: int, world_size: int) -> None:
    """Tensors are written into before and after a reduction, and beside it while it is under way."""
    tensor, other = torch.ones(4), torch.ones(4)
    tensor.add_(1)
    work = dist.all_reduce(tensor, async_op=True)
    other.add_(1)
    assert work is not None
    work.wait()
    tensor.add_(1)


@right(2)
def disjoint_views(rank: int, world_size: int) -> None:
    """Two reductions are under way on different halves of one storage, and a third part is written into."""
    whole = torch.ones(6)
    works = [dist.all_reduce(whole[low : low + 2], async_op=True) for low in (0, 2)]
    whole[4:].add_(1)
    for work in works:
        assert work is not None
        work.wait()


@right(2)
def groups_of_one_member(rank: int, world_size: int) -> None:
    """Each rank makes a group and a mesh of itself alone, and calls in them what the other does not."""
    group = dist.new_group([rank])
    mesh = DeviceMesh("cpu", [rank])
    for _ in range(1 + rank):
        dist.all_reduce(torch.ones(1 + rank), group=group)
        dist.barrier(group=mesh.get_group())
    dist.barrier()


@right(2)
def ddp_joins(rank: int, world_size: int) -> None:
    """Rank 0 has fewer batches, and joins."""
    model = DistributedDataParallel(nn.Linear(4, 4))
    with Join([model]):
        for _ in range(2 if rank == 0 else 4):
            model(torch.ones(2, 4)).sum().backward()


@right(2)
def ddp_finds_unused_parameters(rank: int, world_size: int) -> None:
    """The ranks use different parts of a model that looks for unused ones, and accumulate gradients."""
    model = DistributedDataParallel(TwoHeads(), find_unused_parameters=True)
    model(torch.ones(2, 4), used=1 + rank).sum().backward()
    with model.no_sync():
        model(torch.ones(2, 4), used=2).sum().backward()
    model(torch.ones(2, 4), used=2 - rank).sum().backward()


@right(2)
def fsdp_trains(rank: int, world_size: int) -> None:
    """A sharded model trains on batches of different sizes; one rank is slow in between."""
    model: Any = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    fully_shard(model[0])
    fully_shard(model)
    for step in range(2):
        loss = model(torch.ones(1 + rank, 4)).sum()
        if rank == step == 1:
            time.sleep(SLOW_S)
        loss.backward()


@right(2)
def dtensors_move(rank: int, world_size: int) -> None:
    """Tensors are distributed and redistributed, and looked at as a whole."""
    mesh = init_device_mesh("cpu", (world_size,))
    tensor = distribute_tensor(torch.ones(5, 4), mesh, [Shard(0)])
    tensor.redistribute(mesh, [Shard(1)]).redistribute(mesh, [Replicate()])
    check.assertEqual(tensor.full_tensor().shape, (5, 4))


@right(2)
def parts_of_unequal_size(rank: int, world_size: int) -> None:
    """Ranks hold unequal parts of a tensor, one of them has more tensors, and tensors of its own alone."""
    mesh = init_device_mesh("cpu", (world_size,))
    if rank == 0:
        DTensor.from_local(torch.ones(7), mesh, [Replicate()])
    for _ in range(2 + rank):
        DTensor.from_local(torch.ones(2 + rank, 4), mesh, [Shard(-2)])


@right(2)
def compiled_reduction(rank: int, world_size: int) -> None:
    """A function is compiled late on one rank, and by another backend."""
    if rank == 1:
        time.sleep(SLOW_S)

    def total(tensor: torch.Tensor) -> torch.Tensor:
        return functional.all_reduce(tensor, "sum", dist.group.WORLD) + 1

    compiled = torch.compile(total, backend="aot_eager" if rank == 1 else "eager")
    for _ in range(2):
        check.assertEqual(compiled(torch.ones(2)).tolist(), [3.0, 3.0])
