"""Tests torch's threaded process groups as ranks that are threads get them."""

from __future__ import annotations

import threading
import time
import unittest
from collections.abc import Callable
from datetime import timedelta
from unittest import mock

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.testing._internal.distributed.multi_threaded_pg import ProcessLocalGroup

from harness.communication_call import Kind
from harness.outcomes import RankOutcome, Status
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.result import RankResult
from harness.ranks.threads import torch_groups
from harness.ranks.threads.rank import current
from harness.ranks.threads.rank_set import RankThreads
from suites.selftest.ranks.threads.running import ARRIVAL_S, run_to_end


def on_group(world_size: int, test: Callable[[int], object]) -> list[RankOutcome]:
    """Runs ``test(rank)`` in that many threads with a default group, and returns the outcomes by rank."""
    store = torch_groups.new_store()

    def body(rank: int, channel: DirectChannel) -> None:
        torch_groups.init_group(rank, world_size, store)
        test(rank)
        channel.record(RankResult(Status.PASSED))

    return run_to_end(RankThreads(world_size, body, timeout_s=ARRIVAL_S))


class ThreadedGroupTest(unittest.TestCase):
    """The threaded backend's group: what torch's has, and what the harness adds to it."""

    def passes(self, test: Callable[[int], object]) -> list[RankOutcome]:
        """Checks that a test passes on two ranks, and returns their outcomes."""
        found = on_group(2, test)
        for outcome in found:
            self.assertEqual(outcome.status, Status.PASSED, outcome.error)
        return found

    def test_reduce(self) -> None:
        """Only the root of a reduce gets the result, under each operation; torch's group has no reduce."""

        def test(rank: int) -> None:
            for operation, expected in ((dist.ReduceOp.SUM, 3.0), (dist.ReduceOp.MAX, 2.0)):
                tensor = torch.tensor([rank + 1.0])
                dist.reduce(tensor, dst=1, op=operation)
                assert tensor.item() == (expected if rank == 1 else 1.0), (operation, tensor)

        for outcome in self.passes(test):
            reduced = [c.signature.operation for c in outcome.calls if c.kind is Kind.COLLECTIVE]
            self.assertEqual(reduced, ["reduce"] * 2)

    def test_timeout_of_a_new_group(self) -> None:
        """A group that a rank makes waits no longer than the test may take; a shorter timeout is kept."""
        asked: list[timedelta] = []

        def note(*args: object, timeout: timedelta, **more: object) -> tuple[None, None]:
            asked.append(timeout)
            return None, None

        def body(rank: int, channel: DirectChannel) -> None:
            for seconds in (10, 3600):
                dist.distributed_c10d._new_process_group_helper(timeout=timedelta(seconds=seconds))

        with mock.patch.object(dist.distributed_c10d, "_new_process_group_helper", note):
            run_to_end(RankThreads(1, body, timeout_s=ARRIVAL_S))
        self.assertEqual(asked, [timedelta(seconds=10), timedelta(seconds=ARRIVAL_S)])


class InstalledTest(unittest.TestCase):
    """What ``installed`` puts in place while ranks run, and takes out again."""

    def test_whom_a_rank_waits_for(self) -> None:
        """A rank in a sleep does not count as waiting for others, and a rank in wait_tensor does."""
        noted: list[bool] = []

        def note(*_: object) -> None:
            rank = current()
            assert rank is not None
            noted.append(rank.waits)

        def body(rank: int, channel: DirectChannel) -> None:
            time.sleep(0)
            functional.wait_tensor(torch.ones(1))

        with mock.patch.object(time, "sleep", note), mock.patch.object(functional, "wait_tensor", note):
            run_to_end(RankThreads(1, body, timeout_s=ARRIVAL_S))
        self.assertEqual(noted, [False, True])

    def test_all_is_as_it_was(self) -> None:
        """Everything that was put in place is taken out."""
        replaced = (*torch_groups.waiting_calls(), *torch_groups.sleeping_calls())
        before = {(owner, name): vars(owner)[name] for owner, name in replaced}
        world, helper = dist.distributed_c10d._world, dist.distributed_c10d._new_process_group_helper
        creator, start = dist.Backend._plugins["THREADED"], vars(ProcessLocalGroup)["_start_coll"]
        run_to_end(RankThreads(2, lambda rank, channel: None, timeout_s=ARRIVAL_S))
        self.assertIs(dist.distributed_c10d._world, world)
        self.assertIs(dist.distributed_c10d._new_process_group_helper, helper)
        for (owner, name), value in before.items():
            with self.subTest(f"{owner.__name__}.{name}"):
                self.assertIs(vars(owner)[name], value)
                bound = hasattr(type(value), "__get__") or not isinstance(owner, type)
                self.assertTrue(bound, "what is a method no longer gets its self")
        self.assertEqual(dist.Backend._plugins["THREADED"], creator)
        self.assertIs(vars(ProcessLocalGroup)["_start_coll"], start)

    def test_groups_of_the_parent(self) -> None:
        """After the test each thread of the parent sees the parent's groups, also in C++."""
        run_to_end(RankThreads(1, lambda rank, channel: None, timeout_s=ARRIVAL_S))
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        name, resolve = dist.group.WORLD.group_name, dist.distributed_c10d._resolve_process_group
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(resolve(name)))
        thread.start()
        thread.join()
        self.assertEqual(found, [dist.group.WORLD])

    def test_ranks_cannot_start_ranks(self) -> None:
        """A threaded test within a threaded test is refused."""

        def body(rank: int, channel: DirectChannel) -> None:
            RankThreads(1, body, timeout_s=1.0).start()

        (outcome,) = run_to_end(RankThreads(1, body, timeout_s=ARRIVAL_S))
        assert outcome.error is not None
        self.assertIn("ranks cannot start ranks", outcome.error.message)

    def test_threaded_backend_elsewhere(self) -> None:
        """The threaded backend outside of a rank raises an error that says what is wrong."""
        with self.assertRaisesRegex(RuntimeError, "threads of a threaded test"):
            torch_groups.make_group(None, None)


if __name__ == "__main__":
    unittest.main()
