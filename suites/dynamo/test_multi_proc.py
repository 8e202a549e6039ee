"""Compiled DDP on several ranks, each with rows of its own: what one model learns from all rows at once.

The reference is a copy of the model that nothing wraps or compiles and that is given the rows of all ranks.
Averaged over equal numbers of rows, its gradients are what compiled DDP must arrive at on every rank.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._dynamo import config
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import captured_splits
from harness.targets import Capability, needs
from suites.dynamo.base import CompilersTalk, DdpRanksTestCase, learn, mean_square
from suites.dynamo.models import EQUAL_WIDTHS, SMALL_WIDTHS, ToyModel, weight

#: What the order of adding up a few rows may change. A gradient without a rank's part is off by its size.
ROUNDED = {"rtol": 1e-4, "atol": 1e-6}
#: What activation checkpointing is in a graph.
TAG = torch._higher_order_ops.wrap.tag_activation_checkpoint
#: The buckets of ``ToyModel(SMALL_WIDTHS)`` at a cap of 1 MiB.
SMALL_BUCKETS = (
    ("net.6.weight", "net.6.bias", "net.4.weight", "net.4.bias"),
    ("net.2.weight", "net.2.bias"),
    ("net.0.weight", "net.0.bias"),
)
STEPS = 3
ROWS = 4  # a rank


@needs(Capability.COMPILED_DDP)
class TrainingTestCase(DdpRanksTestCase):
    """Trains a model on all rows, and compiled DDP on this rank's."""

    def train(self, model, backend, *, hook=None, graphs, tolerance=ROUNDED, scale=1.0, look=None, **options):
        """Take some steps with both, compare them after each; return the splits, which all ranks agree on.

        ``graphs``: how many the backend is given in all. ``hook``: DDP's communication hook, which multiplies
        gradients by ``scale``. ``look`` is called with the DDP module after each backward.
        """
        plain = copy.deepcopy(model).to(self.device_type)
        ddp = self.wrap(model, **{"bucket_cap_mb": 1, **options})
        if hook is not None:
            ddp.register_comm_hook(None, hook)
        counter = self.counted(backend)
        compiled = torch.compile(ddp, backend=counter)
        optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (plain, ddp)]
        with captured_splits() as splits:
            for _ in range(STEPS):
                rows = self.draw(self.world_size * ROWS, model.widths[0])
                (mean_square(plain(rows)) * scale).backward()
                mean_square(compiled(self.mine(rows))).backward()
                self.same_state(ddp, plain, **tolerance)
                if look is not None:
                    look(ddp)
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
        self.assertEqual(counter.frame_count, graphs)
        return self.agreed(splits)

    def same_state(self, ddp, plain, **tolerance):
        """Check that both have the same parameters and gradients, and only a ``spare`` one has none."""
        expected = dict(plain.named_parameters())
        actual = dict(ddp.module.named_parameters())
        self.assertEqual(list(actual), list(expected))
        for name, parameter in expected.items():
            with self.subTest(parameter=name):
                self.assertIs(actual[name].grad is None, name == "spare")
                self.assertEqual(actual[name].grad, parameter.grad, **tolerance)
                self.assertEqual(actual[name], parameter, **tolerance)


class WithSpare(ToyModel):
    """The toy, with a parameter that nothing uses.

    DDP refuses the second step with it, unless its graph is static or it looks for such parameters.
    """

    def __init__(self, widths: tuple[int, ...] = SMALL_WIDTHS) -> None:
        super().__init__(widths)
        self.spare = nn.Parameter(torch.ones(3))


class TestMultiProc(TrainingTestCase):
    """Two ranks."""

    rank_modes = ("fresh",)

    @config.patch(optimize_ddp=False)
    def test_ddp_baseline_aot_eager_multiprocess(self):
        self.assertFalse(config.optimize_ddp)
        splits = self.train(ToyModel(SMALL_WIDTHS), "aot_eager", graphs=1)
        self.assertEqual(splits, [])

    @config.patch(optimize_ddp=False)
    def test_ddp_activation_checkpointing(self):
        class Waved(nn.Linear):
            """The sine of a layer, whose backward needs the layer's product: again, if it is not kept."""

            def forward(self, x: Tensor) -> Tensor:
                return super().forward(x).sin()

        class Layers(nn.Module):
            def __init__(self, *layers):
                super().__init__()
                self.layers = nn.ModuleList(layers)

            def forward(self, x: Tensor) -> Tensor:
                for layer in self.layers:
                    x = layer(x)
                return x

        # Of a container of torch's own, dynamo traces the layers and not the container.
        # A layer has two products in the backward, but for the gradient of the input, and its own again.
        for container, products in ((Layers, [2 + 3 + 3]), (nn.Sequential, [3, 3, 2])):
            with self.subTest(container.__name__):
                torch._dynamo.reset()
                model = container(Waved(64, 32), Waved(32, 16), Waved(16, 8)).to(self.device_type)
                x = self.draw(self.world_size * 10, 64)
                expected = learn(copy.deepcopy(model), x)
                apply_activation_checkpointing(model, check_fn=lambda each: isinstance(each, nn.Linear))
                ddp = self.wrap(model)
                counter = self.counted("aot_eager")
                actual = learn(torch.compile(ddp, backend=counter), self.mine(x))
                self.assertEqual(counter.frame_count, len(products))
                self.assertEqual(counter.products(), products)
                tags = [
                    node.target.__name__
                    for graph in counter.graphs
                    for node in graph.graph.find_nodes(op="call_function", target=TAG)
                ]
                self.assertEqual(len(tags), 3)
                self.assertEqual(actual.output, self.mine(expected.output), **ROUNDED)
                self.assertEqual(actual.gradients, expected.gradients, **ROUNDED)


class EveryWorldSize(TrainingTestCase):
    """Graphs in several pieces, on any number of ranks, compiled by the backend ``compiler``."""

    compiler = "aot_eager"

    def test_splits(self):
        (split,) = self.train(ToyModel(SMALL_WIDTHS), self.compiler, graphs=3)
        self.assertEqual(split.names, SMALL_BUCKETS)

    def test_no_sync(self):
        # Gradients of two steps: each rank's own after the first, and then those of all rows of both.
        model = ToyModel(SMALL_WIDTHS).to(self.device_type)
        ddp = self.wrap(model, bucket_cap_mb=1)
        alone, together = copy.deepcopy(model), copy.deepcopy(model)
        counter = self.counted(self.compiler)
        compiled = torch.compile(ddp, backend=counter)
        first, second = (self.draw(self.world_size * ROWS, SMALL_WIDTHS[0]) for _ in range(2))
        with ddp.no_sync():
            mean_square(compiled(self.mine(first))).backward()
        mean_square(alone(self.mine(first))).backward()
        self.same_state(ddp, alone, **ROUNDED)
        mean_square(compiled(self.mine(second))).backward()
        (mean_square(together(first)) + mean_square(together(second))).backward()
        self.same_state(ddp, together, **ROUNDED)
        self.assertEqual(counter.frame_count, 3)

    def test_find_unused_parameters(self):
        # Each rank has a head of its own, so its peers' heads get gradients from elsewhere only.
        class Heads(nn.Module):
            def __init__(self, count):
                super().__init__()
                self.body = weight(512)
                self.heads = nn.ParameterList([weight(512) for _ in range(count)])

            def forward(self, x: Tensor, head: int) -> Tensor:
                return (x @ self.body).relu() @ self.heads[head]

        plain = Heads(self.world_size).to(self.device_type)
        ddp = self.wrap(plain, find_unused_parameters=True, bucket_cap_mb=1)
        counter = self.counted(self.compiler)
        compiled = torch.compile(ddp, backend=counter)
        with captured_splits() as splits:
            for _ in range(2):
                plain.zero_grad()
                ddp.zero_grad()
                rows = self.draw(self.world_size * ROWS, 512)
                parts = [
                    mean_square(plain(part, head)) for head, part in enumerate(rows.chunk(self.world_size))
                ]
                (sum(parts) / self.world_size).backward()
                mean_square(compiled(self.mine(rows), self.rank)).backward()
                self.same_state(ddp, plain, **ROUNDED)
        self.assertEqual([split.names for split in splits], [((f"heads.{self.rank}",), ("body",))])
        self.assertEqual(counter.frame_count, 2)

    def test_comm_hook_of_the_users_own(self):
        seen = []

        def double(state, bucket):
            seen.append(bucket.buffer().numel())
            future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
            return future.then(lambda done: done.value()[0] * 2 / self.world_size)

        model = ToyModel(SMALL_WIDTHS)
        self.train(model, self.compiler, graphs=3, hook=double, scale=2.0)
        self.assertEqual(sum(seen), STEPS * sum(each.numel() for each in model.parameters()))


class TestCompiledTraining(EveryWorldSize):
    """Two ranks."""

    def test_static_graph(self):
        (split,) = self.train(WithSpare(), "aot_eager", graphs=3, static_graph=True)
        self.assertEqual(split.names, SMALL_BUCKETS)

    def test_gradients_as_bucket_views(self):
        # A gradient is part of the memory of its bucket. Before DDP has seen a backward there is one for all,
        # and then several, which are filled in the order in which gradients are ready.
        buckets, sizes = [], []

        def look(ddp):
            storages = [parameter.grad.untyped_storage() for parameter in ddp.parameters()]
            memory = {each.data_ptr(): each.nbytes() for each in storages}
            buckets.append(len(memory))
            sizes.append(sum(memory.values()))

        model = ToyModel(SMALL_WIDTHS)
        (split,) = self.train(model, "aot_eager", graphs=3, look=look, gradient_as_bucket_view=True)
        self.assertEqual(split.names, SMALL_BUCKETS)
        self.assertEqual(buckets[0], 1)
        for several in buckets[1:]:
            self.assertIn(several, range(2, 8))
        self.assertEqual(sizes, [sum(each.nbytes for each in model.parameters())] * STEPS)

    def test_comm_hooks(self):
        def came_as_halves(ddp):
            gradients = [parameter.grad for parameter in ddp.parameters()]
            self.assertEqual(gradients, [each.half().float() for each in gradients], rtol=0, atol=0)

        halved = {"rtol": 2e-2, "atol": 1e-3}
        for hook, tolerance, look in (
            (default_hooks.allreduce_hook, ROUNDED, None),
            (default_hooks.fp16_compress_hook, halved, came_as_halves),
        ):
            seen = []

            def counted(state, bucket, hook=hook, seen=seen):
                seen.append(bucket.buffer().numel())
                return hook(state, bucket)

            with self.subTest(hook=hook.__name__):
                torch._dynamo.reset()
                model = ToyModel(SMALL_WIDTHS)
                self.train(model, "aot_eager", graphs=3, hook=counted, tolerance=tolerance, look=look)
                self.assertEqual(sum(seen), STEPS * sum(each.numel() for each in model.parameters()))

    def test_buffers_are_broadcast(self):
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(10, 10)
                self.register_buffer("scale", torch.ones(()))

            def forward(self, x: Tensor) -> Tensor:
                return self.layer(x) * self.scale

        plain = Scaled().to(self.device_type)
        ddp = self.wrap(plain)
        counter = self.counted("aot_eager")
        compiled = torch.compile(ddp, backend=counter)
        for scale in (2.0, 3.0):
            plain.scale.fill_(scale)
            ddp.module.scale.fill_(scale + self.rank)
            rows = self.draw(self.world_size * ROWS, 10)
            self.assertEqual(compiled(self.mine(rows)), self.mine(plain(rows)), **ROUNDED)
        self.assertEqual(counter.frame_count, 1)


class TestCompiledTrainingWorldSize4(EveryWorldSize):
    """Four ranks, whose graphs run as they were captured."""

    world_size, compiler = 4, "eager"


class TestCompiledTrainingTogether(CompilersTalk, TrainingTestCase):
    """Two ranks whose compilers ask each other what they have met."""

    def check_together(self, model, **options):
        """Train, and check that the compilers have asked."""
        with (
            config.patch(enable_compiler_collectives=True),
            mock.patch.object(dist, "all_gather_object", wraps=dist.all_gather_object) as asked,
        ):
            splits = self.train(model, "aot_eager", graphs=3, **options)
        self.assertGreater(asked.call_count, 1)  # once is the test's own
        return splits

    def test_aot_eager(self):
        (split,) = self.check_together(ToyModel(SMALL_WIDTHS))
        self.assertEqual(split.names, SMALL_BUCKETS)

    def test_static_graph(self):
        (split,) = self.check_together(WithSpare(), static_graph=True)
        self.assertEqual(split.names, SMALL_BUCKETS)


class TestInductorTraining(TrainingTestCase):
    """Two ranks, with inductor."""

    rank_modes = ("fresh",)

    def test_inductor(self):
        (split,) = self.train(ToyModel(EQUAL_WIDTHS), "inductor", graphs=3)
        layers = [[name.split(".")[1] for name in names] for names in split.names]
        self.assertEqual(layers, [["8", "8", "6", "6"], ["4", "4", "2", "2"], ["0", "0"]])

    def test_static_graph(self):
        self.train(WithSpare(EQUAL_WIDTHS), "inductor", graphs=3, static_graph=True)


del EveryWorldSize

if __name__ == "__main__":
    run_tests()
