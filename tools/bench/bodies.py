"""The bodies that ranks run while they are measured, the same ones for every contender.

A body takes the rank, the world size and the rendezvous file. What only a rank can know (memory, the time of
its death) it writes to the file named by ``SPOT``. Settings come in environment variables, because those are
the one channel that all contenders pass on.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

# Environment variables, set by the process that starts the ranks.
WORLD_SIZE = "BENCH_WORLD_SIZE"
SPOT = "BENCH_SPOT"
ROOT = "BENCH_ROOT"  # id of the process whose memory and descendants' memory is measured

# Upstream's slowest measured test takes a minute; a group that is not ready after two never will be.
GROUP_TIMEOUT = timedelta(seconds=120)


def all_reduce(rank: int, world_size: int, file_name: str) -> None:
    """Creates a gloo group, all-reduces over it once, and checks the sum."""
    import torch
    import torch.distributed as dist

    _make_group(rank, world_size, file_name)
    tensor = torch.full((4,), float(rank + 1))
    dist.all_reduce(tensor)
    assert tensor.tolist() == [world_size * (world_size + 1) / 2] * 4, tensor


def hold(rank: int, world_size: int, file_name: str) -> None:
    """Runs ``all_reduce``; then rank 0 adds up the memory of all processes while every rank is alive."""
    import torch.distributed as dist

    all_reduce(rank, world_size, file_name)
    dist.barrier()
    if rank == 0:
        _write_spot(str(_memory_below(int(os.environ[ROOT]))))
    dist.barrier()


def death_seen(rank: int, world_size: int, file_name: str) -> None:
    """Rank 1 dies while its peers wait for it in a collective, where gloo tells them that it is gone."""
    import torch
    import torch.distributed as dist

    _make_group(rank, world_size, file_name)
    dist.barrier()
    if rank == 1:
        _die()
    dist.all_reduce(torch.zeros(4))


def death_unseen(rank: int, world_size: int, file_name: str) -> None:
    """Rank 1 dies while its peers wait for it at the store, which does not tell them that it is gone."""
    store = _store(world_size, file_name)
    store.set(str(rank), "here")
    if rank == 1:
        store.wait([str(r) for r in range(world_size)])
        _die()
    store.wait(["never"])


BODIES: dict[str, Callable[[int, int, str], None]] = {
    "test_all_reduce": all_reduce,
    "test_hold": hold,
    "test_death_seen": death_seen,
    "test_death_unseen": death_unseen,
}


class Bodies:
    """A mixin with the bodies as test methods, for the base class of each harness."""

    rank: int
    file_name: str

    @property
    def world_size(self) -> int:
        """The world size that the measuring process has put into the environment."""
        return int(os.environ[WORLD_SIZE])

    def _body(self, name: str) -> None:
        BODIES[name](self.rank, self.world_size, self.file_name)

    def test_all_reduce(self) -> None:
        """Runs the body ``all_reduce``."""
        self._body("test_all_reduce")

    def test_hold(self) -> None:
        """Runs the body ``hold``."""
        self._body("test_hold")

    def test_death_seen(self) -> None:
        """Runs the body ``death_seen``."""
        self._body("test_death_seen")

    def test_death_unseen(self) -> None:
        """Runs the body ``death_unseen``."""
        self._body("test_death_unseen")


def _store(world_size: int, file_name: str) -> Any:
    import torch.distributed as dist

    store = dist.FileStore(file_name, world_size)
    store.set_timeout(GROUP_TIMEOUT)
    return store


def _make_group(rank: int, world_size: int, file_name: str) -> None:
    import torch.distributed as dist

    store = _store(world_size, file_name)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=GROUP_TIMEOUT)


def _die() -> None:
    _write_spot(repr(time.monotonic()))
    os.kill(os.getpid(), signal.SIGKILL)


def _write_spot(text: str) -> None:
    Path(os.environ[SPOT]).write_text(text)


def _memory_below(root: int) -> int:
    """Bytes of memory (PSS) of a process and its descendants, in which a shared page counts once."""
    import psutil

    top = psutil.Process(root)
    return sum(process.memory_full_info().pss for process in (top, *top.children(recursive=True)))
