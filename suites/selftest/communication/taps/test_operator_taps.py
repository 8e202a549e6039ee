"""Tests that calls are recorded which start in C++: functional collectives, and those of DDP's reducer."""

from __future__ import annotations

import unittest

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from harness import DistributedTestBase, record_communication
from harness.communication.analysis.difference_text import MODULE
from harness.communication.record.arguments import FUNCTIONAL
from harness.communication.taps import taps
from harness.communication.taps.operator_taps import parameters_text
from suites.selftest.communication.operators import functional_base, torch_operators


class KernelsTest(unittest.TestCase):
    """Which operators have a kernel before them."""

    def test_functional(self) -> None:
        """Each form and overload of a functional collective has one, and the wait for its result."""
        self.assertIsNotNone(taps.prepare())
        found = torch_operators("_c10d_functional")
        self.assertIn("wait_tensor", found)
        for name in found:
            if functional_base(name) in (*FUNCTIONAL, "wait_tensor"):
                with self.subTest(operator=name):
                    operator = f"_c10d_functional::{name}"
                    self.assertTrue(torch._C._dispatch_has_kernel_for_dispatch_key(operator, "BackendSelect"))


class RecordedTest(DistributedTestBase):
    """What two ranks see of their own calls."""

    world_size = 2

    def test_functional(self) -> None:
        """A functional collective is one call, which ends with the wait for its result."""
        self.create_pg("cpu")
        with record_communication() as seen:
            found = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD) + 0
        self.assertEqual(found, torch.full((3,), 2.0))
        (call,) = seen.calls
        self.assertEqual((str(call.signature.operation), call.signature.reduce_op), ("all_reduce", "SUM"))
        self.assertIsNotNone(call.ended_s)

    def test_refused(self) -> None:
        """One that torch refuses has ended, and the next one has its number in the group."""
        self.create_pg("cpu")
        with record_communication() as seen:
            with self.assertRaisesRegex(RuntimeError, "Unrecognized"):
                torch.ops._c10d_functional.all_reduce(torch.ones(3), "nothing", dist.group.WORLD.group_name)
            functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD) + 0
        self.assertEqual([(call.raised, call.sequence) for call in seen.calls], [(False, 1)])

    def test_parameters(self) -> None:
        """What DDP gets is recorded before it is compared, and has raised where that has."""
        self.create_pg("cpu")
        found = taps.prepare()
        assert found is not None and found.recorder is not None
        log = found.recorder.log
        DistributedDataParallel(nn.Linear(4, 3))
        with self.assertRaisesRegex(RuntimeError, "expects same model"):
            DistributedDataParallel(nn.Linear(4, 3, bias=self.rank == 0))
        calls = [c for n in range(log.count) if (c := log.call(n)) and c.signature.operation == MODULE]
        self.assertEqual([c.raised for c in calls], [False, True])
        self.assertEqual(calls[0].signature.agreed, "(3, 4) float32; (3,) float32")
        self.assertIs(calls[0].signature.default, True)

    def test_many_parameters(self) -> None:
        """Of many the first are told, and how many there are."""
        told = parameters_text([torch.ones(1)] * 501)
        self.assertEqual(len(told.split("; ")), 501)
        self.assertTrue(told.endswith("; (1,) float32; 501 in all"), told[-60:])

    def test_backward_that_raises(self) -> None:
        """What DDP has started has raised where the backward pass has."""
        self.create_pg("cpu")
        model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), bucket_cap_mb=1e-5)
        model(torch.ones(2, 4)).sum().backward()  # the buckets are made anew behind the first pass

        def fail(_: object) -> None:
            raise KeyError

        model.module[0].weight.register_hook(fail)
        loss = model(torch.ones(2, 4)).sum()
        with record_communication() as seen, self.assertRaises(KeyError):
            loss.backward()
        self.assertEqual({call.raised for call in seen.calls}, {True})

    def test_in_inference_mode(self) -> None:
        """It is seen there too."""
        self.create_pg("cpu")
        with record_communication() as seen, torch.inference_mode():
            functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD) + 0
        self.assertEqual([c.signature.operation for c in seen.calls], ["all_reduce"])

    def test_reducer(self) -> None:
        """Each bucket of gradients is one all-reduce, which has ended when backward has."""
        self.create_pg("cpu")
        model = DistributedDataParallel(nn.Linear(4, 4))
        with record_communication() as seen:
            model(torch.ones(2, 4)).sum().backward()
        (call,) = (c for c in seen.calls if c.signature.operation == "all_reduce")
        self.assertEqual(call.signature.tensors, "(20,) float32")
        self.assertIsNotNone(call.ended_s)


if __name__ == "__main__":
    unittest.main()
