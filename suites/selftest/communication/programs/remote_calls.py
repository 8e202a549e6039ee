"""Programs whose ranks call each other by ``torch.distributed.rpc``, beside collectives."""

from __future__ import annotations

import time
import unittest
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import rpc
from torch.distributed.distributed_c10d import _get_default_store

from suites.selftest.communication.programs.program import KEPT, Kind, Table

TABLE = Table()
check = unittest.TestCase()
# Seconds that a call takes: longer than a proof takes.
SLOW_S = 1.2
# Seconds of programs that come to their deadline: joining takes long on a busy machine.
DEADLINE_S = 6


def add(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Adds, on the rank that is asked."""
    return one + other


def set_key(key: str, delay_s: float) -> None:
    """Sets a key, on the rank that is asked, after a while."""
    time.sleep(delay_s)
    _get_default_store().set(key, "1")


def meet_all() -> None:
    """Comes to a barrier, on the rank that is asked."""
    dist.barrier()


def _meet(url: str, **_: object) -> Iterator[tuple[dist.Store, int, int]]:
    """Lets workers meet in the file of the default group, by a store with a timeout of its own."""
    store: Any = _get_default_store()
    while not hasattr(store, "path"):
        store = store.underlying_store
    yield dist.PrefixStore("rpc", dist.FileStore(store.path)), dist.get_rank(), dist.get_world_size()


dist.register_rendezvous_handler("meet", _meet)


# By shared memory, torch's first choice, a thread of each rank never sleeps: much work on a busy machine.
SLEEPING = {"_transports": ["uv"], "_channels": ["basic"]}


def _worker(rank: int, world_size: int, transport: Mapping[str, Any] = SLEEPING) -> dict[str, Any]:
    """Arguments of ``init_rpc``."""
    options = rpc.TensorPipeRpcBackendOptions(init_method="meet://all", **transport)
    return {"name": f"worker{rank}", "rank": rank, "world_size": world_size, "rpc_backend_options": options}


def _ask_the_next(rank: int, world_size: int, slow_rank: int | None = None) -> None:
    """Joins RPC, asks the next rank in each of the three ways, and shuts down when all have come to it."""
    rpc.init_rpc(**_worker(rank, world_size))
    following, numbers = f"worker{(rank + 1) % world_size}", torch.ones(2)
    slow = rpc.rpc_async(following, time.sleep, (SLOW_S if rank == slow_rank else 0,))
    check.assertEqual(rpc.rpc_sync(following, add, (numbers, numbers)).tolist(), [2, 2])
    check.assertEqual(rpc.remote(following, add, (numbers, 2 * numbers)).to_here().tolist(), [3, 3])
    dist.all_reduce(numbers)
    check.assertEqual(numbers.tolist(), [world_size, world_size])
    slow.wait()
    rpc.shutdown()


@TABLE.right(3)
def remote_calls_and_a_late_shutdown(rank: int, world_size: int) -> None:
    """A rank's call takes long, in which its peers wait in the shutdown, and all reduce in between."""
    _ask_the_next(rank, world_size, slow_rank=0)
    dist.barrier()


@TABLE.bug(3, Kind.DEADLOCKED, "rank 2 left the test", "ranks 0, 1 wait in barrier", "{waits}", guilty=[2])
def leaves_after_remote_calls(rank: int, world_size: int) -> None:
    """Rank 2 is done after the shutdown, and its peers wait for it."""
    _ask_the_next(rank, world_size)
    if rank != 2:
        dist.barrier()  # waits


@TABLE.right(3, modes=KEPT)
def key_that_an_agent_sets(rank: int, world_size: int) -> None:
    """Rank 0 waits for a key that rank 1's agent sets, while its peers wait in the shutdown."""
    rpc.init_rpc(**_worker(rank, world_size))
    if rank == 0:
        rpc.rpc_async("worker1", set_key, ("of.an.agent", SLOW_S))
        _get_default_store().get("of.an.agent")
    rpc.shutdown()


@TABLE.right(3)
def asks_one_that_is_done(rank: int, world_size: int) -> None:
    """Rank 2 is done without a shutdown, and its agent answers all the same."""
    rpc.init_rpc(**_worker(rank, world_size))
    dist.barrier()
    if rank != 2:
        numbers = torch.ones(2)
        check.assertEqual(rpc.rpc_sync("worker2", add, (numbers, numbers)).tolist(), [2, 2])


@TABLE.bug(
    3,
    Kind.DEADLOCKED,
    "cause: rank 2 left the test; ranks 0, 1 wait in init_rpc ({waits} in never_joins)",
    guilty=[2],
)
def never_joins(rank: int, world_size: int) -> None:
    """Rank 2 does not join RPC, for which its peers wait, whatever the timeout of calls."""
    if rank != 2:
        rpc.init_rpc(**_worker(rank, world_size))  # waits


@TABLE.bug(
    3,
    Kind.DEADLOCKED,
    "cause: rank 2 left the test after init_rpc; ranks 0, 1 wait in rpc.shutdown "
    "({waits} in leaves_without_a_shutdown)",
    guilty=[2],
    modes=KEPT,
)
def leaves_without_a_shutdown(rank: int, world_size: int) -> None:
    """Rank 2 is done, and its peers wait for it in the shutdown, over transports that never sleep."""
    rpc.init_rpc(**_worker(rank, world_size, transport={}))
    if rank != 2:
        rpc.shutdown()  # waits


@TABLE.bug(
    3,
    Kind.TIMED_OUT,
    "rank 2 waits in barrier #1 ({guilty}",
    "for which nobody comes",
    "ranks 0, 1 never came to barrier #1: they wait in rpc.shutdown ({waits}",
    guilty=[2],
    deadline_s=DEADLINE_S,
)
def barrier_before_a_shutdown(rank: int, world_size: int) -> None:
    """Rank 2 comes to a barrier first, and its peers to the shutdown."""
    rpc.init_rpc(**_worker(rank, world_size))
    if rank == 2:
        dist.barrier()  # guilty
    rpc.shutdown()  # waits


@TABLE.bug(
    3,
    Kind.TIMED_OUT,
    "rank 0 never came to rpc.shutdown: it waits in rpc_sync to worker2 ({guilty}",
    "rank 1 waits in rpc.shutdown ({waits} | ranks 1, 2 wait in rpc.shutdown ({waits}",
    guilty=[0],
    deadline_s=DEADLINE_S,
)
def asks_another_to_meet_all(rank: int, world_size: int) -> None:
    """Rank 0 has rank 2 come to a barrier, and waits for the answer instead of coming too."""
    rpc.init_rpc(**_worker(rank, world_size))
    if rank == 0:
        rpc.rpc_sync("worker2", meet_all)  # guilty
    rpc.shutdown()  # waits


@TABLE.bug(
    3,
    Kind.TIMED_OUT,
    "cause: rank 2 left the test after init_rpc; ranks 0, 1 wait in to_here from worker2 "
    "({waits} in fetches_what_never_ends)",
    guilty=[2],
    deadline_s=DEADLINE_S,
)
def fetches_what_never_ends(rank: int, world_size: int) -> None:
    """Rank 2 is done, and its agent runs what its peers have asked for longer than the test may take."""
    rpc.init_rpc(**_worker(rank, world_size))
    if rank != 2:
        rpc.remote("worker2", time.sleep, (3600,)).to_here()  # waits


@TABLE.bug(
    3,
    Kind.ERROR,
    "rank 2 left the test after rpc.shutdown; ",
    "in rpc_sync to worker2 ({waits} in asks_one_that_has_shut_down)",
    guilty=[2],
)
def asks_one_that_has_shut_down(rank: int, world_size: int) -> None:
    """Rank 2 has shut its agent down alone, and its peers ask it."""
    rpc.init_rpc(**_worker(rank, world_size))
    if rank == 2:
        rpc.shutdown(graceful=False)
    dist.barrier()
    if rank != 2:
        rpc.rpc_sync("worker2", add, (torch.ones(2), torch.ones(2)))  # waits
