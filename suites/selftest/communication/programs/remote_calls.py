"""Programs whose ranks call each other by ``torch.distributed.rpc``, beside collectives."""

from __future__ import annotations

import tempfile
import time
import unittest

import torch
import torch.distributed as dist
from torch.distributed import rpc

from suites.selftest.communication.programs.program import Kind, Table

TABLE = Table()
check = unittest.TestCase()
# Seconds that a call takes: longer than a proof takes.
SLOW_S = 1.2


def add(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Adds, on the rank that is asked."""
    return one + other


def _ask_the_next(rank: int, world_size: int, slow_rank: int | None = None) -> None:
    """Joins RPC, asks the next rank in each of the three ways, and shuts down when all have come to it."""
    with tempfile.TemporaryDirectory() as directory:
        place = [directory]
        dist.broadcast_object_list(place, src=0)
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{place[0]}/rpc")
        rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
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
