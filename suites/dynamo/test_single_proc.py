"""Compiled DDP in one process: into how many graphs it falls, what they hold, and what they compute.

The model's parameters are counted in bytes, so every number here is the same on any device.
"""

from __future__ import annotations

import copy
import sys
import unittest
from contextlib import nullcontext
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo import config
from torch._dynamo.backends.distributed import DDPOptimizer
from torch.distributed._functional_collectives import AsyncCollectiveTensor, _maybe_wrap_tensor
from torch.nn.parallel import DistributedDataParallel

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import captured_splits
from harness.releases import torch_at_least
from suites.dynamo.base import DdpCompileTestCase, learn
from suites.dynamo.models import EQUAL_WIDTHS, MIB, SMALL_WIDTHS, CheckpointedLayers, CustomModel, toy

#: The rows of inductor's models: those of a rank in ``test_multi_proc``, for which the same C++ is compiled.
ROWS = 4
#: What DDPOptimizer calls its graph breaks.
BREAK = "DDPOptimizer intentional graph-break"


class TestSingleProc(DdpCompileTestCase):
    """The world is this process."""

    def check_trained(self, model, *inputs, backend, graphs, products=None, **options):
        """Train a compiled DDP copy of the model for a step, beside the model; return the splits.

        ``products``: how many matrix products each backward has, where that is to be checked.
        """
        expected = learn(copy.deepcopy(model), *inputs)
        counter = self.counted(backend)
        with captured_splits() as splits:
            actual = learn(torch.compile(self.wrap(model, **options), backend=counter), *inputs)
        self.same_learned(actual, expected)
        self.assertEqual(counter.frame_count, graphs)
        if products is not None:
            self.assertEqual(counter.products(), products)
        return splits

    # -- not split

    @config.patch(optimize_ddp=False)
    def test_ddp_baseline_aot_eager(self):
        self.check_baseline("aot_eager")

    @config.patch(optimize_ddp=False)
    def test_ddp_baseline_inductor(self):
        self.check_baseline("inductor")

    def check_baseline(self, backend):
        # With the optimizer on, these sizes make three graphs.
        model, x, _ = toy(self.device, EQUAL_WIDTHS, ROWS)
        splits = self.check_trained(model, x, backend=backend, graphs=1, bucket_cap_mb=1)
        self.assertEqual(splits, [])

    def test_no_split(self):
        model, x, expected = toy(self.device, (10, 5, 5, 5, 5))
        counter = self.counted()
        with captured_splits() as splits:
            actual = torch.compile(self.wrap(model, bucket_cap_mb=250), backend=counter)(x)
        self.assertEqual(actual, expected)
        self.assertEqual(counter.frame_count, 1)
        self.assertEqual([split.sizes for split in splits], [(580,)])

    def test_empty_graph_inductor(self):
        def no_tensors():
            return (dist.distributed_c10d.get_world_size(),)

        counter = self.counted("inductor")
        self.assertEqual(torch.compile(no_tensors, backend=counter)(), (1,))
        self.assertEqual(counter.frame_count, 0)

    # -- split by size

    def test_graph_split(self):
        model, x, expected = toy(self.device)
        ddp = self.wrap(model, bucket_cap_mb=25)
        counter = self.counted()

        @torch.compile(backend=counter)
        def run(x):
            return ddp(x)

        with captured_splits() as splits:
            self.assertEqual(run(x), expected)
        self.assertEqual(counter.frame_count, 3)
        (split,) = splits
        self.assertEqual(
            split.names,
            (
                ("net.6.weight", "net.6.bias", "net.4.weight", "net.4.bias"),
                ("net.2.weight", "net.2.bias"),
                ("net.0.weight", "net.0.bias"),
            ),
        )
        self.assertEqual(split.sizes, (100_020_000 + 100_020, 100_020_000, 220_000))
        self.assertEqual((split.first_cap, split.cap), (MIB, 25 * MIB))

        torch._dynamo.reset()
        explained = torch._dynamo.explain(ddp)(x)
        self.assertEqual(len(explained.break_reasons), 3)
        for each in explained.break_reasons:
            self.assertIn(BREAK, each.reason)

    def test_graph_split_ctx_manager(self):
        device = torch.device(self.device).type
        enter_autocast, set_grad = torch.amp.autocast_mode._enter_autocast, torch._C._set_grad_enabled
        # Each with what is around the call, and what the graph of each piece enters it by.
        contexts = {
            "autocast": (
                lambda: torch.autocast(device, torch.float16),
                nullcontext,
                (enter_autocast, (device, torch.float16, True, None)),
                lambda out: out.dtype == torch.float16,
            ),
            "enable_grad": (
                torch.enable_grad,
                torch.no_grad,
                (set_grad, (True,)),
                lambda out: out.requires_grad,
            ),
            "no_grad": (
                torch.no_grad,
                nullcontext,
                (set_grad, (False,)),
                lambda out: not out.requires_grad,
            ),
        }
        for backend in ("eager", "aot_eager"):
            for name, (context, around, enters, shows) in contexts.items():
                with self.subTest(backend=backend, context=name), around():
                    torch._dynamo.reset()
                    self.check_context(backend, context, enters, shows)

    def check_context(self, backend, context, enters, shows):
        """Split a model whose forward is within a context: in every piece, and in its result.

        ``enters`` are the function and the arguments by which a graph enters it, first of all.
        """
        model, x, expected = toy(self.device, (1000,) * 5, context=context)
        self.assertTrue(shows(expected))
        ddp = self.wrap(model, bucket_cap_mb=3.5)
        counter = self.counted(backend)
        with captured_splits() as splits:
            actual = torch.compile(ddp, backend=counter)(x)
        self.assertEqual(actual, expected)
        self.assertTrue(shows(actual))
        for graph in counter.graphs:
            first = next(node for node in graph.graph.nodes if node.op == "call_function")
            self.assertEqual((first.target, first.args), enters)
        if actual.requires_grad:
            learned = torch.autograd.grad(expected, [*model.parameters()], torch.ones_like(expected))
            actual.backward(torch.ones_like(actual))
            self.assertEqual([parameter.grad for parameter in ddp.parameters()], [*learned])
        self.assertEqual(counter.frame_count, 4)
        self.assertEqual([split.sizes for split in splits], [(4_004_000,) * 4])

        if backend != "eager":  # explain has a backend of its own
            return
        torch._dynamo.reset()
        explained = torch._dynamo.explain(ddp)(x)
        self.assertEqual(len(explained.break_reasons), 4)
        for each in explained.break_reasons:
            self.assertIn(BREAK, each.reason)

    def test_graph_split_inductor(self):
        model, x, _ = toy(self.device, EQUAL_WIDTHS, ROWS)
        (split,) = self.check_trained(model, x, backend="inductor", graphs=3, bucket_cap_mb=1)
        self.assertEqual([len(bucket.parameters) for bucket in split.buckets], [4, 4, 2])

    def test_aot_autograd(self):
        model, x, _ = toy(self.device, SMALL_WIDTHS)
        expected = learn(copy.deepcopy(model), x, loss=torch.sum)
        ddp = self.wrap(model, bucket_cap_mb=1)
        counter = self.counted("aot_eager")
        actual = learn(torch.compile(ddp, backend=counter), x, loss=torch.sum)
        self.same_learned(actual, expected)
        self.assertNotIn(None, actual.gradients.values())
        self.assertEqual(counter.frame_count, 3)

    # -- layers of the user's own

    def test_custom_layer(self):
        model = CustomModel().to(self.device)
        x = torch.rand(CustomModel.WIDTH, CustomModel.WIDTH, device=self.device)
        (split,) = self.check_trained(model, x, x, backend="eager", graphs=3, bucket_cap_mb=1)
        self.assertEqual(
            split.names,
            (
                ("seq.4.linear.weight", "seq.4.linear.bias"),
                ("seq.2.weight",),
                ("seq.0.linear.weight", "seq.0.linear.bias"),
            ),
        )
        self.assertEqual(split.sizes, (1_050_624, 1_048_576, 1_050_624))

    @config.patch(optimize_ddp=False)
    def test_ignored_parameters(self):
        model = CustomModel().to(self.device)
        x = torch.rand(CustomModel.WIDTH, CustomModel.WIDTH, device=self.device)
        expected = model(x, x)
        ignored = {"seq.2.weight", "seq.4.linear.bias"}
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, list(ignored))
        ddp = DistributedDataParallel(model, device_ids=self.device_ids, bucket_cap_mb=25)
        counter = self.counted()
        optimizer = DDPOptimizer(bucket_bytes_cap=ddp.bucket_bytes_cap, backend_compile_fn=counter)
        with captured_splits() as splits:
            compiled = torch.compile(ddp, backend=lambda graph, inputs: optimizer.compile_fn(graph, inputs))
            self.assertEqual(compiled(x, x), expected)
        self.assertEqual(counter.frame_count, 2)
        (split,) = splits
        # What torch says it does is to leave the ignored ones out: 1,048,576 and 1,050,624 bytes. The mark
        # is lost when dynamo makes the graph's inputs of the parameters, and they count like all others.
        self.assertEqual(split.sizes, (1_050_624, 2_099_200))
        counted = {each.name for bucket in split.buckets for each in bucket.parameters if each.ignored}
        self.assertEqual(counted, ignored)

    def test_higher_order_op(self):
        model = CheckpointedLayers().to(self.device)
        x = torch.randn(1000, 1000, device=self.device, requires_grad=True)
        # In the backward each layer has two products, and its own again: for the next layer, or the cosine.
        (split,) = self.check_trained(
            model, x, backend="aot_eager", graphs=2, products=[4 + 2, 4 + 2], bucket_cap_mb=1
        )
        self.assertEqual(split.sizes, (8_008_000, 8_008_000))
        self.assertEqual([bucket.ops.count("tag_activation_checkpoint") for bucket in split.buckets], [1, 1])

    def test_async_subclass_no_specialize(self):
        counter = self.counted()

        @torch.compile(backend=counter, fullgraph=True, dynamic=True)
        def add(x):
            return x + 1

        for size in (10, 12):
            x = torch.randn(size, device=self.device)
            wrapped = _maybe_wrap_tensor(x)
            self.assertIsInstance(wrapped, AsyncCollectiveTensor)
            self.assertEqual(add(wrapped), x + 1)
        self.assertEqual(counter.frame_count, 1)

    # -- several DDP modules

    @unittest.skipUnless(torch_at_least("2.12"), "torch 2.11 forgets the outer module")
    def test_nested_ddp_preserves_active_ddp_module(self):
        seen = []

        class Outer(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
                self.after = toy("cpu", SMALL_WIDTHS)[0]

            def forward(self, x):
                x = self.inner(x)
                seen.append(DistributedDataParallel._get_active_ddp_module())
                torch._dynamo.graph_break()
                return self.after(x)

        torch.manual_seed(5)
        inner = self.wrap(nn.Linear(10, 10).to(self.device))
        model = Outer(inner).to(self.device)
        x = torch.randn(4, 10, device=self.device)
        expected = model(x)
        ddp = DistributedDataParallel(model, device_ids=self.device_ids, bucket_cap_mb=1)
        self.assertEqual(ddp(x), expected)
        self.assertIs(seen[-1], ddp)
        self.assertIsNone(DistributedDataParallel._get_active_ddp_module())

        ddp.module.after.compile(backend="eager")
        with captured_splits() as splits:
            self.assertEqual(ddp(x), expected)
        self.assertEqual([len(split.buckets) for split in splits], [3])


if __name__ == "__main__":
    run_tests()
