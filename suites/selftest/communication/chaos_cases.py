"""Cases that ``test_chaos`` runs under seeds of delays: one with a race, and ones without."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
import torch.distributed as dist

from harness import MultiProcessTestCase, MultiThreadedTestCase
from suites.selftest.ranks.external.bodies import run_and_write

#: Calls of each rank before the flag is set and read: a slow rank needs some 0.6 s for them in all.
CALLS = 60


def meet(store: Any, rank: int) -> None:
    """Waits until both ranks have come, so that it does not matter which one has started sooner."""
    store.set(f"rank {rank} is here", "")
    store.wait(["rank 0 is here", "rank 1 is here"])


def work(store: Any, rank: int) -> None:
    """Makes a number of calls that wait for nobody."""
    for _ in range(CALLS):
        store.add(f"of rank {rank}", 1)


def flag(store: Any, rank: int) -> bool:
    """Sets a flag on rank 1 and reads it on rank 0 without having waited for it: whether it was there."""
    meet(store, rank)
    work(store, rank)
    if rank == 1:
        store.set("flag", "")
        return True
    return bool(store.check(["flag"]))


class FlagTest(MultiProcessTestCase):
    """Two ranks that are processes."""

    world_size = 2
    rank_modes = ("fresh", "pooled")

    def test_race(self) -> None:
        """Expects a flag that rank 1 sets when it comes to it."""
        self.assertTrue(flag(dist.FileStore(self.file_name, 2), self.rank))

    def test_right(self) -> None:
        """Waits for the flag, then adds up and exchanges numbers, two calls at once."""
        store = dist.FileStore(self.file_name, 2)
        meet(store, self.rank)
        if self.rank == 1:
            store.set("flag", "")
        store.wait(["flag"])
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=2)
        one, two = torch.ones(2), torch.full((2,), float(self.rank))
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in (one, two)]:
            work.wait()
        self.assertEqual([*one.tolist(), *two.tolist()], [2, 2, 1, 1])
        if self.rank == 0:
            dist.send(one, 1)
        else:
            dist.recv(two, 0)
            self.assertEqual(two.tolist(), [2, 2])
        dist.destroy_process_group()


class ThreadsTest(MultiThreadedTestCase):
    """Two ranks that are threads."""

    world_size = 2

    def test_race(self) -> None:
        """Expects a flag that rank 1 sets when it comes to it."""
        self.assertTrue(flag(dist.distributed_c10d._get_default_store(), self.rank))


def main(results: str, *names: str) -> NoReturn:
    """Runs tests of this module on ranks that a launcher has started."""
    run_and_write(__name__, results, names)
