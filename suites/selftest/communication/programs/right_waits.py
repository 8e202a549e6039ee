"""Right programs that wait, are slow, or expect a timeout."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from suites.selftest.communication.programs.program import KEPT, PROCESSES, STARTED, Table

TABLE = Table()
right = TABLE.right
check = unittest.TestCase()
# Seconds that a slow rank takes: longer than a proof takes.
SLOW_S = 1.2
# The timeout of a call that is expected to time out.
SHORT = timedelta(seconds=1.2)


@right(3, modes=STARTED)
def slow_rank(rank: int, world_size: int) -> None:
    """Rank 1 comes late."""
    if rank == 1:
        time.sleep(SLOW_S)
    dist.all_reduce(torch.ones(1))


@right(2)
def busy_rank(rank: int, world_size: int) -> None:
    """Rank 0 computes for a while and calls nothing in between."""
    end = time.monotonic() + SLOW_S
    while rank == 0 and time.monotonic() < end:
        torch.ones(64, 64) @ torch.ones(64, 64)
    dist.barrier()


@right(2, modes=PROCESSES)
def barrier_is_to_time_out(rank: int, world_size: int) -> None:
    """Rank 0 expects that nobody comes to its barrier."""
    group = dist.new_group([0, 1], timeout=SHORT)
    if rank == 0:
        with check.assertRaises(RuntimeError):
            dist.barrier(group=group)


@right(2)
def all_reduce_is_to_time_out(rank: int, world_size: int) -> None:
    """Rank 1 expects that nobody comes to its reduction, for which it waits with a timeout."""
    group = dist.new_group([0, 1], timeout=SHORT)
    if rank == 1:
        work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
        assert work is not None
        with check.assertRaises(RuntimeError):
            work.wait()


@right(2)
def message_is_to_time_out(rank: int, world_size: int) -> None:
    """Rank 1 expects that no message comes."""
    group = dist.new_group([0, 1], timeout=SHORT)
    if rank == 1:
        with check.assertRaises(RuntimeError):
            dist.recv(torch.ones(1), src=0, group=group)


@right(3)
def monitored_barrier_names_a_missing_rank(rank: int, world_size: int) -> None:
    """Rank 2 does not come to a monitored barrier, which says so."""
    if rank == 0:
        with check.assertRaisesRegex(RuntimeError, "Rank 2 failed to pass monitoredBarrier"):
            dist.monitored_barrier(timeout=SHORT)
    elif rank == 1:
        with check.assertRaises(RuntimeError):
            dist.monitored_barrier(timeout=SHORT)


@right(2)
def monitored_barrier_collects_missing_ranks(rank: int, world_size: int) -> None:
    """Rank 0 waits for all ranks at a monitored barrier to which rank 1 does not come."""
    if rank == 0:
        with check.assertRaisesRegex(RuntimeError, "1"):
            dist.monitored_barrier(timeout=SHORT, wait_all_ranks=True)


@right(2, modes=PROCESSES)
def get_is_to_time_out(rank: int, world_size: int) -> None:
    """Rank 0 expects that nobody sets a key."""
    store = dist.PrefixStore("mine", _get_default_store())
    store.set_timeout(SHORT)
    if rank == 0:
        with check.assertRaises(RuntimeError):
            store.get("nobody sets this")


@right(3)
def wait_is_to_time_out(rank: int, world_size: int) -> None:
    """All ranks expect that nobody sets a key."""
    with check.assertRaises(RuntimeError):
        _get_default_store().wait(["nobody sets this either"], SHORT)


@right(3, modes=STARTED)
def key_that_is_set_late(rank: int, world_size: int) -> None:
    """Ranks 0 and 2 read a key that rank 1 sets late."""
    store = _get_default_store()
    if rank == 1:
        time.sleep(SLOW_S)
        store.set("late", "1")
    else:
        check.assertEqual(store.get("late"), b"1")


@right(2, modes=KEPT)
def key_that_an_own_thread_sets(rank: int, world_size: int) -> None:
    """Rank 0 reads a key that another of its threads sets, when rank 1 has left."""
    store = _get_default_store()
    if rank == 0:
        other = threading.Timer(SLOW_S, store.set, ("own", "1"))
        other.start()
        check.assertEqual(store.get("own"), b"1")
        other.join()


@right(3, modes=KEPT)
def server_that_comes_late(rank: int, world_size: int) -> None:
    """Ranks 1 and 2 connect to a store that rank 0 begins to serve later, and rank 0 waits for them there."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = [bound.getsockname()[1]]
        dist.broadcast_object_list(port, src=0)
        if rank == 0:
            time.sleep(SLOW_S)
            listening = bound.detach()  # the store closes it
            store = dist.TCPStore("127.0.0.1", port[0], world_size, True, master_listen_fd=listening)
        else:
            store = dist.TCPStore("127.0.0.1", port[0], world_size)
        store.set(str(rank), "here")
        store.wait([str(each) for each in range(world_size)])
        dist.barrier()


@right(2)
def lock_that_is_released(rank: int, world_size: int) -> None:
    """Rank 1 waits for an event of one of its threads while rank 0 waits in a barrier."""
    if rank == 1:
        event = threading.Event()
        other = threading.Timer(SLOW_S, event.set)
        other.start()
        event.wait()
        other.join()
    dist.barrier()


@right(2)
def subprocess_that_ends(rank: int, world_size: int) -> None:
    """Rank 0 waits for a command while rank 1 waits in a reduction."""
    if rank == 0:
        subprocess.run(["sleep", str(SLOW_S)], check=True)
    dist.all_reduce(torch.ones(1))


@right(3)
def pipe_that_is_written(rank: int, world_size: int) -> None:
    """Rank 2 reads from a pipe in C what a thread writes late, and the others wait in a broadcast."""
    if rank == 2:
        reader, writer = os.pipe()
        other = threading.Timer(SLOW_S, os.write, (writer, b"1"))
        other.start()
        check.assertEqual(os.read(reader, 1), b"1")
        other.join()
        os.close(reader)
        os.close(writer)
    dist.broadcast(torch.ones(1), src=2)


@right(2, modes=KEPT)
def polled_work(rank: int, world_size: int) -> None:
    """Rank 0 polls its work until rank 1 comes."""
    if rank == 1:
        time.sleep(SLOW_S)
    work = dist.all_reduce(torch.ones(2), async_op=True)
    assert work is not None
    while not work.is_completed():
        time.sleep(0.005)
    work.wait()


@right(2, modes=KEPT)
def futures(rank: int, world_size: int) -> None:
    """Rank 0 waits by a future until rank 1 comes, and again; another call's end is told to a callback."""
    if rank == 1:
        time.sleep(SLOW_S)
    work = dist.all_reduce(torch.ones(2), async_op=True)
    assert work is not None
    future, over = work.get_future(), threading.Event()
    future.wait()
    future.wait()
    work.wait()
    other = dist.all_reduce(torch.ones(2), async_op=True)
    assert other is not None
    other.get_future().add_done_callback(lambda _: over.set())
    over.wait()


@right(2, modes=KEPT)
def future_of_a_slow_callback(rank: int, world_size: int) -> None:
    """Rank 0 waits for what a callback makes of a result, when rank 1 has left."""
    work = dist.all_reduce(torch.ones(2), async_op=True)
    assert work is not None
    future = work.get_future()
    if rank == 0:
        future.then(lambda _: time.sleep(SLOW_S)).wait()
    else:
        future.wait()


@right(2, modes=KEPT)
def futures_of_several(rank: int, world_size: int) -> None:
    """Rank 0 waits for two reductions at once, to the second of which rank 1 comes late."""
    futures = []
    for _ in range(2):
        work = dist.all_reduce(torch.ones(2), async_op=True)
        assert work is not None
        futures.append(work.get_future())
        if rank == 1:
            time.sleep(SLOW_S)
    both = torch.futures.collect_all(futures)
    if rank == 0:
        both.wait()
    torch.futures.wait_all([both.then(lambda future: future.value()), *futures])


@right(2)
def work_waited_for_in_a_thread(rank: int, world_size: int) -> None:
    """Rank 0 waits in a thread for work that its main thread started; rank 1 is late."""
    if rank == 1:
        time.sleep(SLOW_S)
    work = dist.all_reduce(torch.ones(2), async_op=True)
    assert work is not None
    other = threading.Thread(target=work.wait)
    other.start()
    other.join()


@right(4)
def leaves_early_and_is_not_needed(rank: int, world_size: int) -> None:
    """Ranks 2 and 3 are done while ranks 0 and 1 still exchange messages, slowly."""
    dist.barrier()
    tensor = torch.ones(2)
    if rank == 0:
        time.sleep(SLOW_S)
        dist.send(tensor, dst=1)
    elif rank == 1:
        dist.recv(tensor, src=0)
