"""Programs whose ranks call collectives in different orders or numbers, or never come to one."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from datetime import timedelta
from unittest import SkipTest

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from suites.selftest.communication.programs.program import EVERYWHERE, KEPT, PROCESSES, STARTED, Kind, Table

TABLE = Table()
bug = TABLE.bug


# -- a rank leaves early, others go on


@bug(
    4,
    Kind.DEADLOCKED,
    "rank 0 left the test after all_reduce #5 of the default group",
    "ranks 1-3 wait in all_reduce #6",
    "{waits}",
    guilty=[0],
    modes=STARTED,
)
def first_rank_has_fewer_iterations(rank: int, world_size: int) -> None:
    """Rank 0 leaves a loop after five iterations of six."""
    for _ in range(5 if rank == 0 else 6):
        dist.all_reduce(torch.ones(4))  # waits


@bug(
    3,
    Kind.ERROR,
    "divergent skip",
    "rank 2 skipped (not on rank 2)",
    "ranks 0, 1 wait in all_reduce #1 of the default group",
    "{waits}",
    guilty=[2],
    modes=STARTED,
)
def skips_alone(rank: int, world_size: int) -> None:
    """Rank 2 skips the test, for which its peers wait in vain."""
    if rank == 2:
        raise SkipTest("not on rank 2")
    dist.all_reduce(torch.ones(4))  # waits


@bug(
    3,
    Kind.DEADLOCKED,
    "rank 2 left the test",
    "ranks 0, 1 wait in broadcast #1",
    "{waits}",
    guilty=[2],
    modes=STARTED,
)
def last_rank_returns_early(rank: int, world_size: int) -> None:
    """Rank 2, the root of the broadcast, returns before it."""
    weights = torch.full((3,), float(rank))
    if rank == 2:
        return
    dist.broadcast(weights, src=2)  # waits


@bug(
    2,
    Kind.DEADLOCKED,
    "rank 1",
    "rank 0 waits in all_gather #2",
    "{waits}",
    modes=EVERYWHERE,
)
def branch_by_rank(rank: int, world_size: int) -> None:
    """Only rank 0 gathers the metrics at the end."""
    loss = torch.tensor([float(rank)])
    losses = [torch.zeros(1) for _ in range(world_size)]
    dist.all_gather(losses, loss)
    if rank == 0:
        dist.all_gather(losses, loss)  # waits


@bug(
    3,
    Kind.DEADLOCKED,
    "rank 1 left the test",
    "ranks 0, 2 wait in all_reduce #2",
    "{waits}",
    guilty=[1],
)
def swallows_its_error(rank: int, world_size: int) -> None:
    """Rank 1 logs an error in its second step, in place of raising it, and so leaves the loop."""
    try:
        for step in range(3):
            if rank == 1 and step == 1:
                raise ValueError("a bad batch")
            dist.all_reduce(torch.ones(2))  # waits
    except ValueError as error:
        print("skipped the rest:", error)


@bug(3, Kind.ERROR, "rank 1 crashed: exit code 3", guilty=[1], modes=KEPT)
def dies_before_barrier(rank: int, world_size: int) -> None:
    """Rank 1 exits without a word while its peers wait for it."""
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        os._exit(3)
    dist.barrier()


@bug(3, Kind.ERROR, "rank 1", guilty=[1])
def destroys_its_group_early(rank: int, world_size: int) -> None:
    """Rank 1 destroys the default group, and with it its connections, before its peers are done."""
    dist.barrier()
    if rank == 1:
        dist.destroy_process_group()
    else:
        dist.all_reduce(torch.ones(1))


@bug(3, Kind.ERROR, "Rank 2 failed to pass monitoredBarrier | rank 2 left the test")
def monitored_barrier_missed(rank: int, world_size: int) -> None:
    """Rank 2 leaves before a monitored barrier, which ends by its own timeout."""
    if rank != 2:
        dist.monitored_barrier(timeout=timedelta(seconds=1))


@bug(3, Kind.ERROR, "rank 0 left the test", "ranks 1, 2", "barrier", guilty=[0])
def barrier_times_out(rank: int, world_size: int) -> None:
    """Rank 0 leaves before a barrier of a group with a short timeout."""
    group = dist.new_group(timeout=timedelta(seconds=1))
    if rank != 0:
        dist.barrier(group=group)


# -- one rank calls one more


@bug(4, Kind.DEADLOCKED, "rank 2", "all_reduce #3", "{guilty}", guilty=[2], modes=STARTED)
def one_more_all_reduce(rank: int, world_size: int) -> None:
    """Rank 2 calls all_reduce once more than the others."""
    for _ in range(2):
        dist.all_reduce(torch.ones(4))
    if rank == 2:
        dist.all_reduce(torch.ones(4))  # guilty


@bug(3, Kind.DEADLOCKED, "rank 1", "all_reduce #2", "{guilty} | {also}", guilty=[1])
def one_more_async(rank: int, world_size: int) -> None:
    """Rank 1 starts one more asynchronous reduction and waits for it."""
    works = [dist.all_reduce(torch.ones(4), async_op=True)]
    if rank == 1:
        works.append(dist.all_reduce(torch.ones(4), async_op=True))  # guilty
    for work in works:
        work.wait()  # also


@bug(4, Kind.DEADLOCKED, "rank 3", "barrier #1", "{guilty}", guilty=[3], modes=STARTED)
def one_more_barrier(rank: int, world_size: int) -> None:
    """Rank 3 alone ends with a barrier."""
    if rank == 3:
        dist.barrier()  # guilty


@bug(3, Kind.DEADLOCKED, "rank 0", "rank 2", "barrier #2", "{guilty}")
def one_more_in_a_sub_group(rank: int, world_size: int) -> None:
    """Rank 0 calls a barrier of the group of ranks 0 and 2 once more than rank 2 does."""
    pair = dist.new_group([0, 2])
    if rank != 1:
        dist.barrier(group=pair)
    if rank == 0:
        dist.barrier(group=pair)  # guilty


# -- a rank does not come


def step() -> None:
    """Polls and never returns."""
    while True:
        time.sleep(0.01)  # step


@bug(3, Kind.TIMED_OUT, "rank 1 never came to barrier #2", "ordering.py", "in step", guilty=[1])
def loops_in_python(rank: int, world_size: int) -> None:
    """Rank 1 polls for something that does not happen."""
    dist.barrier()
    if rank == 1:
        step()
    dist.barrier()


@bug(2, Kind.TIMED_OUT, "rank 0 never came to all_reduce #1", "{guilty}", guilty=[0])
def waits_for_a_lock(rank: int, world_size: int) -> None:
    """Rank 0 takes a lock twice."""
    lock = threading.Lock()
    for _ in range(2 - rank):
        lock.acquire()  # guilty
    dist.all_reduce(torch.ones(1))


@bug(2, Kind.TIMED_OUT, "rank 1 never came to all_reduce #1", "{guilty}", guilty=[1])
def waits_for_a_subprocess(rank: int, world_size: int) -> None:
    """Rank 1 runs a command that does not end."""
    if rank == 1:
        subprocess.run(["sleep", "600"], check=True)  # guilty
    dist.all_reduce(torch.ones(1))


@bug(3, Kind.TIMED_OUT, "rank 2 never came to broadcast #1", "{guilty}", guilty=[2])
def waits_in_c(rank: int, world_size: int) -> None:
    """Rank 2 reads from a pipe into which nobody writes, before a broadcast of which it is the root."""
    if rank == 2:
        reader, _ = os.pipe()
        os.read(reader, 1)  # guilty
    dist.broadcast(torch.ones(1), src=2)


@bug(3, Kind.TIMED_OUT, "rank 0 waits in all_reduce #1", "{waits}", "ranks 1, 2 left the test", guilty=[0])
def waits_in_a_thread(rank: int, world_size: int) -> None:
    """Rank 0 joins a thread that calls a collective to which nobody comes."""

    def reduce() -> None:
        dist.all_reduce(torch.ones(1))  # waits

    if rank == 0:
        thread = threading.Thread(target=reduce)
        thread.start()
        thread.join()


# -- different collectives at one place


@bug(
    4,
    Kind.DEADLOCKED_OR_ERROR,
    "rank 3",
    "broadcast",
    "ranks 0-2",
    "all_reduce",
    "{guilty}",
    "{waits}",
    guilty=[3],
    modes=STARTED,
)
def broadcast_against_all_reduce(rank: int, world_size: int) -> None:
    """Rank 3 broadcasts where the others reduce."""
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    if rank == 3:
        dist.broadcast(tensor, src=3)  # guilty
    else:
        dist.all_reduce(tensor)  # waits
    dist.barrier()


@bug(
    2,
    Kind.DEADLOCKED_OR_ERROR,
    "rank 0",
    "barrier #1",
    "rank 1",
    "all_reduce #1",
    "{guilty}",
    "{waits}",
    modes=STARTED,
)
def barrier_against_all_reduce(rank: int, world_size: int) -> None:
    """The two ranks call a barrier and a reduction in opposite orders."""
    if rank == 0:
        dist.barrier()  # guilty
        dist.all_reduce(torch.ones(1))
    else:
        dist.all_reduce(torch.ones(1))  # waits
        dist.barrier()


@bug(
    3,
    Kind.DEADLOCKED_OR_ERROR,
    "rank 0",
    "all_gather",
    "ranks 1, 2",
    "reduce_scatter",
    "{guilty}",
    guilty=[0],
)
def gather_against_reduce_scatter(rank: int, world_size: int) -> None:
    """Rank 0 gathers where the others reduce and scatter."""
    many, one = torch.ones(6), torch.ones(2)
    if rank == 0:
        dist.all_gather_into_tensor(many, one)  # guilty
    else:
        dist.reduce_scatter_tensor(one, many)  # waits
    dist.barrier()


@bug(
    3,
    Kind.DEADLOCKED_OR_ERROR,
    "rank 1",
    "broadcast",
    "ranks 0, 2",
    "all_reduce",
    "{guilty}",
    guilty=[1],
)
def different_asynchronous_calls(rank: int, world_size: int) -> None:
    """Rank 1 starts a broadcast of its own where the others start a reduction."""
    tensor = torch.ones(1000)
    if rank == 1:
        work = dist.broadcast(tensor, src=0, async_op=True)  # guilty
    else:
        work = dist.all_reduce(tensor, async_op=True)  # waits
    assert work is not None
    work.wait()
    dist.barrier()


# -- another group of a mesh


@bug(
    4,
    Kind.DEADLOCKED,
    "rank 3 calls all_reduce on group {{1, 3}} (mesh_dp)",
    "ranks 0-2 call it on groups {{0, 1}}, {{2, 3}} (mesh_tp)",
    "{guilty}",
    guilty=[3],
    modes=PROCESSES,
)
def takes_another_dimension_of_the_mesh(rank: int, world_size: int) -> None:
    """Rank 3 reduces over "dp" where the others do over "tp": rank 1 has done nothing wrong, and left."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    group = mesh.get_group("dp" if rank == 3 else "tp")
    dist.all_reduce(torch.ones(2), group=group)  # guilty


# -- waits by a future


@bug(2, Kind.DEADLOCKED, "rank 1 left the test", "rank 0 waits in all_reduce #1", "{waits}", modes=PROCESSES)
def waits_by_a_future(rank: int, world_size: int) -> None:
    """Rank 0 waits for the future of its reduction, in which rank 1 takes no part."""
    if rank == 0:
        work = dist.all_reduce(torch.ones(2), async_op=True)  # waits
        assert work is not None
        work.get_future().wait()


@bug(2, Kind.DEADLOCKED, "rank 1 left the test", "rank 0 waits in all_reduce #1", "{waits}", modes=PROCESSES)
def waits_for_what_it_has_the_future_of(rank: int, world_size: int) -> None:
    """Rank 0 takes the future of its work, and then waits for the work."""
    if rank == 0:
        work = dist.all_reduce(torch.ones(2), async_op=True)  # waits
        assert work is not None
        future = work.get_future()
        work.wait()
        future.wait()


@bug(2, Kind.DEADLOCKED, "rank 1 left the test", "rank 0 waits in all_reduce #1", "{waits}", modes=PROCESSES)
def waits_by_a_future_of_a_future(rank: int, world_size: int) -> None:
    """Rank 0 waits for what it does with the result of its reduction."""
    if rank == 0:
        work = dist.all_reduce(torch.ones(2), async_op=True)  # waits
        assert work is not None
        work.get_future().then(lambda future: future.value()).then(lambda future: future.value()).wait()


@bug(2, Kind.DEADLOCKED, "rank 1 left", "rank 0 waits in all_reduce #2", "{waits}", modes=PROCESSES)
def waits_by_a_future_of_several(rank: int, world_size: int) -> None:
    """Rank 0 waits for three reductions at once, of which rank 1 takes part in the first."""
    futures = []
    for _ in range(1 if rank == 1 else 3):
        work = dist.all_reduce(torch.ones(2), async_op=True)  # waits
        assert work is not None
        futures.append(work.get_future())
    torch.futures.collect_all(futures).wait()


@bug(2, Kind.DEADLOCKED, "rank 1 left", "rank 0 waits in all_reduce #1", "{waits}", modes=PROCESSES)
def waits_by_a_chain_of_futures(rank: int, world_size: int) -> None:
    """Rank 0 waits for all of what it does with the results of two reductions, the second one of its own."""
    if rank == 0:
        alone = [dist.new_group([0], use_local_synchronization=True), None]
        works = [dist.all_reduce(torch.ones(2), group=group, async_op=True) for group in alone[::-1]]  # waits
        done = torch.futures.collect_all([work.get_future() for work in works if work is not None])
        torch.futures.wait_all([done.then(lambda future: len(future.value()))])


@bug(2, Kind.DEADLOCKED, "rank 1 left", "rank 0 waits in all_reduce_coalesced #1", "{waits}", modes=PROCESSES)
def waits_for_coalesced_tensors(rank: int, world_size: int) -> None:
    """Rank 0 waits by the future that torch gives for coalesced tensors."""
    if rank == 0:
        future = dist.all_reduce_coalesced([torch.ones(2), torch.ones(3)], async_op=True)  # waits
        future.wait()
