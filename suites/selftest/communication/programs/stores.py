"""Programs whose ranks wait for keys of the store that nobody sets."""

from __future__ import annotations

import socket
import time
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from suites.selftest.communication.programs.program import KEPT, PROCESSES, Kind, Table

TABLE = Table()
bug = TABLE.bug


@bug(3, Kind.DEADLOCKED, "rank 1", "get", "model.path", "{waits}", modes=KEPT)
def key_that_nobody_sets(rank: int, world_size: int) -> None:
    """Rank 1 reads a key that no rank sets."""
    store = _get_default_store()
    if rank == 1:
        store.get("model.path")  # waits


@bug(
    2,
    Kind.DEADLOCKED,
    "rank 1",
    "wait",
    "{waits}",
    "it is 'model_ready', and rank 0 sets 'model.ready'",
    "{guilty}",
    modes=PROCESSES,
)
def misspelled_key(rank: int, world_size: int) -> None:
    """Rank 1 waits for a key that rank 0 spells in another way."""
    store = _get_default_store()
    if rank == 0:
        store.set("model.ready", "1")  # guilty
    else:
        store.wait(["model_ready"])  # waits


@bug(4, Kind.DEADLOCKED, "ranks 1-3 never came to barrier #1", "{waits}", "rank 0 sets 'kee'", "{guilty}")
def misspelled_key_before_a_barrier(rank: int, world_size: int) -> None:
    """Rank 0 spells a key in another way, and waits for those who read it."""
    store = _get_default_store()
    if rank == 0:
        store.set("kee", "1")  # guilty
    else:
        store.get("key")  # waits
    dist.barrier()


@bug(3, Kind.DEADLOCKED, "ranks 0-2", "wait", "all.here", "{waits}")
def barrier_by_store_counts_wrong(rank: int, world_size: int) -> None:
    """The last rank to come should let all go on, and no rank's number is the one that is asked for."""
    store = _get_default_store()
    if store.add("arrived", 1) == world_size + 1:
        store.set("all.here", "1")
    store.wait(["all.here"])  # waits


@bug(2, Kind.DEADLOCKED, "rank 0", "barrier #1", "rank 1", "result", "{waits}", "{guilty}")
def key_set_after_the_barrier(rank: int, world_size: int) -> None:
    """Rank 0 sets after a barrier the key that rank 1 reads before it."""
    store = _get_default_store()
    if rank == 1:
        store.get("result")  # waits
    dist.barrier()  # guilty
    if rank == 0:
        store.set("result", "1")


@bug(
    4,
    Kind.DEADLOCKED,
    "cause: rank 2 waits in barrier #1 ({guilty} in key_that_its_rank_forgets) "
    "and never set what rank 0 waits for; "
    "rank 0 waits in store.wait('of/1, of/2, of/3') ({waits} in key_that_its_rank_forgets); "
    "ranks 1, 3 wait in barrier #1 ({guilty} in key_that_its_rank_forgets)",
    guilty=[2],
    modes=KEPT,
)
def key_that_its_rank_forgets(rank: int, world_size: int) -> None:
    """Rank 0 waits for a key of each rank, and rank 2 goes on without setting its own."""
    store = _get_default_store()
    if rank in (1, 3):
        store.set(f"of/{rank}", "1")
    if rank == 0:
        store.wait([f"of/{other}" for other in range(1, world_size)])  # waits
    dist.barrier()  # guilty


@bug(
    3,
    Kind.DEADLOCKED,
    "ranks 1, 2 wait in store.get('lr')",
    "{waits}",
    "it is 'cfg/lr', and rank 0 sets 'config/lr'",
    "{guilty}",
    modes=KEPT,
)
def prefixes_differ(rank: int, world_size: int) -> None:
    """What rank 0 sets in a store with one prefix the others read in a store with another one."""
    store = _get_default_store()
    if rank == 0:
        dist.PrefixStore("config", store).set("lr", "0.1")  # guilty
    else:
        dist.PrefixStore("cfg", store).get("lr")  # waits


@bug(
    3,
    Kind.DEADLOCKED,
    "ranks 1, 2 wait in TCPStore('localhost:",
    "a server that nobody has started",
    "{waits}",
)
def server_that_nobody_starts(rank: int, world_size: int) -> None:
    """Ranks 1 and 2 connect to a store that rank 0 does not serve, for longer than their test's deadline."""
    with socket.socket() as bound:  # a port at which nobody listens
        bound.bind(("127.0.0.1", 0))
        port = [bound.getsockname()[1]]
        dist.broadcast_object_list(port, src=0)
        if rank > 0:
            dist.TCPStore("127.0.0.1", port[0], timeout=timedelta(hours=1))  # waits


@bug(2, Kind.DEADLOCKED, "rank 0", "TCPStore('localhost:", "for 3 workers", "rank 1", "barrier #1", "{waits}")
def server_that_waits_for_too_many(rank: int, world_size: int) -> None:
    """Rank 0 serves a store for more ranks than there are."""
    if rank == 0:
        dist.TCPStore("127.0.0.1", 0, world_size + 1, True, timeout=timedelta(hours=1))  # waits
    dist.barrier()


@bug(2, Kind.TIMED_OUT, "rank 0", "{guilty}", guilty=[0])
def key_of_a_rank_that_loops(rank: int, world_size: int) -> None:
    """Rank 1 reads a key that rank 0 could still set if its loop ended."""
    store = _get_default_store()
    while rank == 0:
        time.sleep(0.01)  # guilty
    store.get("done")  # waits
