"""The splits captured from DDPOptimizer, for models whose buckets are known beforehand."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
import torch._dynamo
from torch import Tensor, nn
from torch._dynamo.backends.distributed import DDPOptimizer
from torch.nn.functional import linear
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from harness.cases.dynamo import clean_compiler
from harness.errors import UsageError
from harness.graphs.ddp_capture import captured_splits, splits_of
from harness.graphs.ddp_splits import MIB, Boundary, DdpSplit
from harness.testcase import TestCase

# A square weight of this width is exactly the first bucket's limit.
WIDTH = 512


class UnderDDP(nn.Module):  # type: ignore[misc]  # torch is not followed
    """A stand-in for DDP that DDPOptimizer accepts, without a process group."""

    def __init__(self, module: nn.Module, cap: int = MIB) -> None:
        super().__init__()
        self.module = module
        self.bucket_bytes_cap = cap

    @torch._dynamo.disable(recursive=False)  # type: ignore[untyped-decorator]  # torch is not followed
    def forward(self, *inputs: Any) -> Any:
        """Run the module's forward while this object is the active DDP module."""
        with mock.patch.object(DistributedDataParallel, "_active_ddp_module", self):
            return self.module(*inputs)


class Body(nn.Module):  # type: ignore[misc]  # as above
    """A module whose forward is the given function."""

    def __init__(self, forward: Callable[..., Any], **children: Any) -> None:
        super().__init__()
        for name, child in children.items():
            setattr(self, name, child)
        self.body = forward

    def forward(self, *inputs: Any) -> Any:
        """Call the function with the module itself and the inputs."""
        return self.body(self, *inputs)


class Held(nn.Module):  # type: ignore[misc]  # as above
    """A module with one parameter that fx can trace symbolically."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        """Multiply by the parameter."""
        return x * self.w


def weight() -> nn.Parameter:
    """A square parameter of 1 MiB."""
    return nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH)


def layers(count: int) -> nn.Module:
    """A module around ``count`` linear layers of slightly more than 1 MiB each."""
    net = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(count)))
    return Body(lambda self, x: self.net(x).relu(), net=net)


class CaptureTest(TestCase):
    """Splits of compiled models; each test starts with a compiler that has compiled nothing."""

    def setUp(self) -> None:
        """Resets the state of the compiler."""
        super().setUp()
        around = clean_compiler()
        around.__enter__()
        self.addCleanup(around.__exit__, None, None, None)

    def split(self, model: nn.Module, *inputs: Any, **options: Any) -> DdpSplit:
        """The single split of a model, whose compiled results must equal its eager results."""
        expected = model(*inputs)
        with captured_splits() as splits:
            actual = torch.compile(UnderDDP(model), **{"backend": "eager", **options})(*inputs)
        self.assertEqual(actual, expected)
        (split,) = splits
        return split

    def test_layers(self) -> None:
        """Each layer is a bucket, nearest the output first, with the tensor that passes between buckets."""
        split = self.split(layers(3), torch.randn(2, WIDTH))
        self.assertEqual(split.names, tuple((f"net.{n}.weight", f"net.{n}.bias") for n in (2, 1, 0)))
        self.assertEqual(split.sizes, (MIB + 4 * WIDTH,) * 3)
        self.assertEqual((split.first_cap, split.cap), (MIB, MIB))
        self.assertEqual(
            [bucket.ops for bucket in split.buckets], [("linear", "relu"), ("linear",), ("linear",)]
        )
        kind = ((2, WIDTH), "float32")
        self.assertEqual([(b.shape, b.dtype, b.source) for b in split.crossings], [(*kind, 1), (*kind, 2)])
        self.assertEqual([(b.shape, b.dtype, b.source) for b in split.results], [(*kind, 0)])
        (entry,) = split.buckets[2].inputs
        self.assertEqual((entry.shape, entry.source), ((2, WIDTH), None))
        self.assertEqual(
            [b.crossing.name for b in split.buckets if b.crossing], [names[0] for names in split.names]
        )
        self.assertEqual(split.missed, ())

    def test_graphs(self) -> None:
        """Each bucket has the code of its own graph, and the split that of the whole graph."""
        split = self.split(layers(2), torch.randn(2, WIDTH))
        for bucket, relus in zip(split.buckets, (1, 0), strict=True):
            self.assertEqual(self.calls(bucket.graph), (1, relus))
        self.assertEqual(self.calls(split.graph), (2, 1))

    def calls(self, code: str) -> tuple[int, int]:
        """How often a graph's code calls linear and relu, without its comments."""
        lines = [line for line in code.splitlines() if not line.lstrip().startswith("#")]
        return sum("linear(" in line for line in lines), sum("relu(" in line for line in lines)

    def test_one_bucket(self) -> None:
        """A graph that is not split is captured as one bucket, whatever the backend does with it."""
        model = Body(lambda self, x: self.layer(x).relu(), layer=nn.Linear(4, 4))
        for backend in ("eager", "aot_eager"):
            torch._dynamo.reset()
            split = self.split(model, torch.randn(2, 4), backend=backend)
            self.assertEqual(split.names, (("layer.weight", "layer.bias"),))
            self.assertEqual((split.crossings, split.buckets[0].crossing), ((), None))

    def test_symbolic_size(self) -> None:
        """A symbolic size is an input of each bucket that needs it."""
        split = self.split(layers(2), torch.randn(3, WIDTH), dynamic=True)
        (rows,) = {value.shape[0] for value in split.crossings}
        self.assertIn(Boundary(str(rows), (), "int"), split.buckets[0].inputs)

    def test_size_that_a_bucket_makes(self) -> None:
        """A size that depends on data passes between buckets as an int, from the bucket that computes it."""

        def body(self: Any, x: Tensor, counts: Tensor) -> Tensor:
            (count,) = counts.tolist()
            return (x.new_ones(count, WIDTH) @ self.a).sin() @ self.b + count

        with torch._dynamo.config.patch(capture_scalar_outputs=True):
            split = self.split(Body(body, a=weight(), b=weight()), torch.randn(1), torch.tensor([3]))
        self.assertEqual(split.names, (("b",), ("a",)))
        self.assertEqual([(v.dtype, v.source) for v in split.crossings], [("float32", 1), ("int", 1)])

    def test_several_results(self) -> None:
        """A value that several buckets or the caller read has the same name everywhere."""

        def body(self: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            low = x @ self.a
            high = (low @ self.b).relu()
            return low, high @ self.c + low, high

        split = self.split(Body(body, a=weight(), b=weight(), c=weight()), torch.randn(2, WIDTH))
        self.assertEqual(split.names, (("c",), ("b",), ("a",)))
        self.assertEqual([value.source for value in split.results], [2, 0, 1])
        low, _, high = split.results
        self.assertEqual(set(split.buckets[0].inputs), {low, high})
        self.assertEqual((split.outputs(2), split.outputs(1)), ((low,), (high,)))

    def test_names_and_frozen_parameters(self) -> None:
        """Parameters have their names in the DDP module, and frozen ones are not counted."""
        norm = nn.BatchNorm1d(WIDTH, track_running_stats=False)
        model = Body(
            lambda self, x: self.inner.norm(x @ self.own) @ self.frozen,
            inner=Body(lambda self, x: x, norm=norm),
            own=weight(),
            frozen=nn.Parameter(torch.randn(WIDTH, 3), requires_grad=False),
        )
        split = self.split(model, torch.randn(4, WIDTH))
        self.assertEqual(split.names, (("inner.norm.weight", "inner.norm.bias", "own"),))
        self.assertEqual(split.missed, ())

    def test_ignored_and_missed(self) -> None:
        """Parameters that DDP ignores are marked, and those that the optimizer overlooks are listed."""
        model = Body(lambda self, x: linear(x @ self.a, weight=self.b), a=weight(), b=weight())
        ignore = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
        ignore(model, ["a"])
        split = self.split(model, torch.randn(2, WIDTH))
        self.assertEqual([(p.name, p.ignored) for p in split.buckets[0].parameters], [("a", True)])
        self.assertEqual([p.name for p in split.missed], ["b"])

    def test_checkpointed_region(self) -> None:
        """A checkpointed region is one operator, and its parameters count."""
        model = Body(
            lambda self, x: (
                checkpoint(lambda y: (y @ self.a).sin() @ self.b, x, use_reentrant=False).cos() @ self.c
            ),
            a=weight(),
            b=weight(),
            c=weight(),
        )
        split = self.split(model, torch.randn(2, WIDTH, requires_grad=True), backend="aot_eager")
        self.assertEqual([set(names) for names in split.names], [{"c"}, {"a", "b"}])
        self.assertEqual(split.buckets[1].ops, ("tag_activation_checkpoint", "getitem", "cos"))

    def test_extended_bucket(self) -> None:
        """A full bucket whose results nobody reads takes further operators."""
        model = Body(
            lambda self, x: (x.sin() @ self.a, self.seen.copy_((self.b * 2).sum(0)))[0],
            a=weight(),
            b=weight(),
            seen=torch.zeros(WIDTH),
        )
        with self.assertLogs("torch._dynamo.backends.distributed", "WARNING"):
            split = self.split(model, torch.randn(2, WIDTH))
        self.assertEqual(split.names, (("b", "a"),))
        self.assertEqual(split.buckets[0].extended_by, 1)

    def test_recompiled(self) -> None:
        """A recompilation is captured as another split."""
        model = UnderDDP(layers(2))
        compiled = torch.compile(model, backend="eager")
        with captured_splits() as splits:
            for rows in (2, 2, 3):
                compiled(torch.randn(rows, WIDTH))
        self.assertEqual(len(splits), 2)
        self.assertEqual(splits[0].names, splits[1].names)
        self.assertNotEqual(splits[0].results[0].shape, splits[1].results[0].shape)

    def test_hand_made_optimizer(self) -> None:
        """Without an active DDP module, parameters are named after the place where dynamo found them."""
        model = layers(2)
        optimizer = DDPOptimizer(MIB, lambda graph, inputs: graph.forward, first_bucket_cap=8)
        with captured_splits() as splits:
            torch.compile(model, backend=lambda graph, inputs: optimizer.compile_fn(graph, inputs))(
                torch.randn(2, WIDTH)
            )
        self.assertEqual(splits[0].names, (("net.1.weight", "net.1.bias"), ("net.0.weight", "net.0.bias")))
        self.assertEqual(splits[0].first_cap, 8)

    def test_modules_in_the_graph(self) -> None:
        """Parameters of modules that a graph itself calls are named after their path in its module."""
        graph = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
        held = torch.fx.symbolic_trace(Held())
        next(iter(held.graph.nodes)).meta["example_value"] = torch.ones(2, 4)
        optimizer = DDPOptimizer(MIB, lambda graph, inputs: graph.forward)
        with captured_splits() as splits:
            optimizer.compile_fn(graph, [torch.ones(2, 4)])
            optimizer.compile_fn(held, [torch.ones(2, 4)])
        self.assertEqual([s.names for s in splits], [(("0.weight", "0.bias"),), (("w",),)])

    def test_failure_of_the_backend(self) -> None:
        """An error of the backend is raised, nothing is recorded, and the optimizer keeps its compiler."""

        def fails(graph: Any, inputs: Any) -> Any:
            raise ZeroDivisionError

        optimizer = DDPOptimizer(MIB, fails)
        graph = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU()))
        with captured_splits() as splits, self.assertRaises(ZeroDivisionError):
            optimizer.compile_fn(graph, [torch.ones(2)])
        self.assertEqual(splits, [])
        self.assertIs(optimizer.backend_compile_fn, fails)

    def test_region(self) -> None:
        """Nothing is recorded outside of the context, and nested contexts both record."""
        original = DDPOptimizer.compile_fn
        model = layers(1)
        with captured_splits() as outer:
            with captured_splits() as inner:
                torch.compile(UnderDDP(model), backend="eager")(torch.randn(2, WIDTH))
            torch._dynamo.reset()
            torch.compile(UnderDDP(model), backend="eager")(torch.randn(2, WIDTH))
        self.assertIs(DDPOptimizer.compile_fn, original)
        self.assertEqual((len(outer), len(inner)), (2, 1))
        self.assertEqual(outer[0], inner[0])

    def test_model_by_itself(self) -> None:
        """``splits_of`` splits a model as under DDP, with keyword arguments too; no module stays active."""
        model, x = layers(2), torch.randn(2, WIDTH)
        expected = self.split(model, x)
        self.assertEqual(splits_of(model, x, bucket_cap_mb=1), [expected])
        self.assertEqual([s.sizes for s in splits_of(model, x)], [(MIB + 4 * WIDTH, MIB + 4 * WIDTH)])
        self.assertEqual([s.names for s in splits_of(Held(), x=torch.ones(4))], [(("w",),)])
        self.assertIsNone(DistributedDataParallel._active_ddp_module)

    def test_cap_below_the_first_bucket(self) -> None:
        """A cap below the first bucket's or not finite, and what is not a module, raise a UsageError."""
        for cap in (0.5, float("nan"), float("inf")):
            with self.assertRaisesRegex(UsageError, "no less than 1$"):
                splits_of(layers(1), torch.randn(2, WIDTH), bucket_cap_mb=cap)
        with self.assertRaisesRegex(UsageError, "the model is a function: give a torch.nn.Module"):
            splits_of(lambda x: x, torch.randn(2))

    def test_switched_off(self) -> None:
        """Without ``optimize_ddp`` nothing is recorded."""
        with captured_splits() as splits, torch._dynamo.config.patch(optimize_ddp=False):
            torch.compile(UnderDDP(layers(2)), backend="eager")(torch.randn(2, WIDTH))
        self.assertEqual(splits, [])

    def test_planted_faults(self) -> None:
        """A split that a planted fault changed differs from the correct one."""
        model = layers(2)
        right = self.split(model, torch.randn(2, WIDTH))
        faults: dict[str, Callable[[], Any]] = {
            "never splits": lambda: mock.patch("torch._dynamo.backends.distributed.DDPOptimizer.add_param"),
            "limits swapped": lambda: mock.patch("torch.distributed._DEFAULT_FIRST_BUCKET_BYTES", MIB // 2),
        }
        for name, planted in faults.items():
            torch._dynamo.reset()
            with self.subTest(name), planted():
                self.assertNotEqual(self.split(model, torch.randn(2, WIDTH)), right)


if __name__ == "__main__":
    unittest.main()
