"""Tests the taps in ranks: they note calls by their public names, unseen by the compiler."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
import unittest
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.utils import counters
from torch.distributed.fsdp import FullyShardedDataParallel

from harness import (
    DistributedTestBase,
    DynamoDistributedMultiProcTestCase,
    MultiProcessTestCase,
)
from harness.cases.dynamo import _dynamo_dist_per_rank_init
from harness.communication.record.arguments import METHODS
from harness.communication.taps import taps
from harness.communication.taps.tap_state import Taps

ONE = torch.ones(1)
# What a user calls, on two ranks.
CALLS: dict[str, Callable[[], object]] = {
    "all_reduce": lambda: dist.all_reduce(ONE.clone()),
    "broadcast": lambda: dist.broadcast(ONE.clone(), 0),
    "reduce": lambda: dist.reduce(ONE.clone(), 0),
    "all_gather": lambda: dist.all_gather([torch.empty(1), torch.empty(1)], ONE),
    "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(torch.empty(2), ONE),
    "reduce_scatter": lambda: dist.reduce_scatter(torch.empty(1), [ONE, ONE]),
    "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(torch.empty(1), torch.ones(2)),
    "all_to_all_single": lambda: dist.all_to_all_single(torch.empty(2), torch.ones(2)),
    "barrier": dist.barrier,
}


class NamesTest(MultiProcessTestCase):
    """Names of collectives, whatever the process group's method is called in this version of torch."""

    world_size = 2

    def test_names(self) -> None:
        """Each call is noted once, by the name that the user knows."""
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)
        found = taps.prepare()
        assert found is not None and found.recorder is not None
        for name, call in CALLS.items():
            noted: list[str] = []

            def began(group: Any, operation: str, *_: Any, noted: list[str] = noted) -> int:
                noted.append(operation)
                return -1

            with self.subTest(name), mock.patch.object(found.recorder, "began", began):
                call()
                self.assertEqual(noted, [name])


def sum_up(group: Any) -> None:
    """Calls the method of a group that sums up, and waits."""
    group.allreduce([ONE.clone()], dist.AllreduceOptions()).wait()


class NestingTest(DistributedTestBase):
    """Calls that others make which are recorded: they are not, in whichever order what nests is defined."""

    world_size = 1

    def setUpRank(self) -> None:
        """Makes the default group, in a rank where nothing is known to nest yet."""
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        found = taps.prepare()
        assert found is not None
        self.taps: Taps = found
        patch = mock.patch.object(found, "nests", False)
        patch.start()
        self.addCleanup(patch.stop)

    def operations(self) -> list[str]:
        """What the calls are that were recorded, since the groups were made."""
        assert self.taps.recorder is not None
        return [call.signature.operation for call in self.taps.recorder.log.last(20)]

    def test_a_group_in_python(self) -> None:
        """One that calls the default group."""

        class Passing(dist.ProcessGroup):  # type: ignore[misc]  # torch is not followed
            def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
                return dist.group.WORLD.allreduce(tensors, opts)

        before = len(self.operations())
        sum_up(Passing(0, 1))
        self.assertEqual(self.operations()[before:], ["all_reduce"])
        sum_up(dist.group.WORLD)
        self.assertEqual(self.operations()[before:], ["all_reduce"] * 2)

    def test_a_store_in_python(self) -> None:
        """One that a group's method asks: it asks another one of torch's."""
        inner = dist.HashStore()
        inner.set("key", "value")

        class Asking(dist.Store):  # type: ignore[misc]
            def get(self, key: str) -> Any:
                return inner.get(key)

        store, done = Asking(), dist.group.WORLD.barrier()
        done.wait()

        def connecting(_: Any, tensors: list[torch.Tensor], opts: Any) -> Any:
            store.get("key")
            return done

        method = taps.recorded(connecting, "allreduce", "all_reduce", self.taps)
        before = len(self.operations())
        method(dist.group.WORLD, [ONE.clone()], dist.AllreduceOptions()).wait()
        self.assertEqual(self.operations()[before:], ["all_reduce"])

    def test_a_class_made_meanwhile(self) -> None:
        """A class of groups that is made while another thread is in a call: both threads go on as before."""
        inside, go_on = threading.Event(), threading.Event()
        done = dist.group.WORLD.barrier()
        done.wait()

        def slow(_: Any, tensors: list[torch.Tensor], opts: Any) -> Any:
            inside.set()
            self.assertTrue(go_on.wait(60))
            return done

        def other() -> None:
            method(dist.group.WORLD, [ONE.clone()], dist.AllreduceOptions()).wait()
            sum_up(made[0](0, 1))
            sum_up(dist.group.WORLD)

        method, made = taps.recorded(slow, "allreduce", "all_reduce", self.taps), []
        before = len(self.operations())
        thread = threading.Thread(target=other)
        thread.start()
        self.assertTrue(inside.wait(60))

        class Passing(dist.ProcessGroup):  # type: ignore[misc]
            def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
                return dist.group.WORLD.allreduce(tensors, opts)

        made.append(Passing)
        sum_up(Passing(0, 1))
        go_on.set()
        thread.join()
        self.assertEqual(self.operations()[before:], ["all_reduce"] * 4)


class GoneTest(DistributedTestBase):
    """What is recorded of a group keeps nothing of it."""

    world_size = 1

    def test_after_its_last_reference(self) -> None:
        """After calls of each kind and one that raises, first calls and later ones, without a collection."""
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for _ in range(2):
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
            for _ in range(2):
                self.communicate()
            group = weakref.ref(dist.group.WORLD)
            dist.destroy_process_group()
            self.assertIsNone(group())

    def communicate(self) -> None:
        """Makes one call of each kind."""
        dist.barrier()
        dist.all_reduce(ONE.clone())
        dist.all_reduce(ONE.clone(), async_op=True).wait()
        dist.all_reduce(ONE.clone(), async_op=True).get_future().wait()
        dist.all_gather_object([None], {"an": "object"})
        sum_up(dist.group.WORLD)
        with self.assertRaises(RuntimeError):
            dist.all_reduce(ONE.to_sparse(), op=dist.ReduceOp.MAX)
        with self.assertRaises(TypeError):
            dist.group.WORLD.allreduce("no tensors", 5)


class Doubled(nn.Module):  # type: ignore[misc]  # torch is not followed
    """A layer whose output is doubled."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        """Returns twice the layer's output for rows of four."""
        return self.layer(x) * 2


class CompiledTest(DynamoDistributedMultiProcTestCase):
    """Dynamo on FSDP1, whose frames it traces down to the collectives."""

    world_size = 2

    def test_the_compiler_does_not_notice(self) -> None:
        """Dynamo counts the same frames and the same graph breaks with the taps as without them."""
        with _dynamo_dist_per_rank_init(self.rank, self.world_size):
            self.counted()  # frames that dynamo has given up are skipped from then on
            recorded = self.counted()
            with without_taps():
                self.assertEqual(recorded, self.counted())
            self.assertEqual(len(recorded["graph_break"]), 1)

    def counted(self) -> dict[str, dict[str, int]]:
        """Returns dynamo's counters after two training steps."""
        torch._dynamo.reset()
        counters.clear()
        device_id = torch.device(self.device_type, None if self.device_type == "cpu" else self.rank)
        sharded = FullyShardedDataParallel(Doubled(), use_orig_params=True, device_id=device_id)
        compiled = torch.compile(sharded, backend="eager")
        for _ in range(2):
            compiled(torch.ones(2, 4, device=device_id)).sum().backward()
        return {kind: dict(counters[kind]) for kind in ("frames", "graph_break")}


@contextlib.contextmanager
def without_taps() -> Iterator[None]:
    """Restores the process group's own methods, without the taps."""
    with contextlib.ExitStack() as undo:
        for name in METHODS:
            method = getattr(dist.ProcessGroup, name, None)
            if method is not None:
                undo.enter_context(mock.patch.object(dist.ProcessGroup, name, bindable(method.__wrapped__)))
        undo.enter_context(mock.patch.object(dist.Work, "wait", bindable(dist.Work.wait.__wrapped__)))
        yield


def bindable(builtin: object) -> Any:
    """Wraps a builtin so that it binds to an instance as pybind11's methods do; a class returns plain
    functions.
    """
    wrap = ctypes.pythonapi.PyInstanceMethod_New
    wrap.restype, wrap.argtypes = ctypes.py_object, [ctypes.py_object]
    return wrap(builtin)


if __name__ == "__main__":
    unittest.main()
