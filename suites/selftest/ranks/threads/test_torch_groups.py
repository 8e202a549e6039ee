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
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.multi_threaded_pg import ProcessLocalGroup

from harness.communication.taps import taps
from harness.communication_call import Call, Kind
from harness.outcomes import Status
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.threads import torch_groups
from harness.ranks.threads.rank import current
from harness.ranks.threads.rank_set import RankThreads
from harness.ranks.threads.threaded_group import BACKEND
from suites.selftest.cases.dtensor_bodies import play, said
from suites.selftest.faults import threaded_collectives
from suites.selftest.ranks.threads.running import ARRIVAL_S, on_group, run_to_end


class StartedInCppTest(unittest.TestCase):
    """What is recorded of calls that start in C++, and of placements."""

    def calls_of(self, test: Callable[[int], object], backend: str, *, turns: bool = True) -> list[Call]:
        """What rank 0 of two that pass has recorded."""
        outcomes = on_group(2, test, backend, turns=turns)
        for outcome in outcomes:
            self.assertEqual(outcome.status, Status.PASSED, outcome.error)
        return [call for call in outcomes[0].calls if call.kind is Kind.COLLECTIVE]

    def test_functional(self) -> None:
        """A functional collective is one call, which has ended where its result was waited for."""

        def test(rank: int) -> None:
            found = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD) + 0
            assert found.tolist() == [2.0] * 3, found

        for backend in ("gloo", BACKEND):
            with self.subTest(backend):
                (call,) = self.calls_of(test, backend)
                self.assertEqual(str(call.signature.operation), "all_reduce")
                self.assertEqual(call.signature.tensors, "(3,) float32")
                self.assertIsNotNone(call.ended_s)

    def test_reducer(self) -> None:
        """The all-reduce of DDP's gradients is one call; no operator keeps a kernel behind the test."""

        def test(rank: int) -> None:
            model = DistributedDataParallel(nn.Linear(4, 4))
            model(torch.ones(2, 4)).sum().backward()
            dist.all_reduce(torch.ones(7))

        found = taps.prepare()
        assert found is not None
        before = found.nests  # set already where another test of this process has made groups of Python
        calls = self.calls_of(test, "gloo", turns=False)  # nobody takes the turn from who waits in backward
        reduced = [c.signature.tensors for c in calls if str(c.signature.operation) == "all_reduce"]
        self.assertEqual(reduced, ["(20,) float32", "(7,) float32"])
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        self.assertFalse(has_kernel("c10d::allreduce_", "BackendSelect"))
        self.assertEqual((found.nests, found.of_threads), (before, None))

    def test_turns(self) -> None:
        """A rank that compares its parameters with its peers', in C++, lets these come there."""

        def test(rank: int) -> None:
            DistributedDataParallel(nn.Linear(4, 4))

        self.calls_of(test, "gloo")

    def test_faults(self) -> None:
        """What ranks do differently there is told as on processes."""
        table = {
            "test_functional_operations": r"^cause: rank 0 reduces with SUM, rank 1 with MAX, in all_red",
            "test_functional_left_out": r"^cause: rank 1 left the test; rank 0 waits in all_reduce #1",
            "test_backward_left_out": r"^cause: rank 1 left the test after .*; rank 0 waits in all_reduce #",
            "test_placements": r"^cause: rank [01] redistributes",
        }
        for method, text in table.items():
            with self.subTest(method):
                result, _ = play(threaded_collectives.FaultsOnGloo, method)
                self.assertRegex(said(result), f"(?m){text}")


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


if __name__ == "__main__":
    unittest.main()
