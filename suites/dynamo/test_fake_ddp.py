"""DDPOptimizer without a process group: a stand-in for DDP is enough to have a graph split.

What the pieces compute is compared with the model by itself; what is in them with what is known of it.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import Tensor, nn
from torch._dynamo import config
from torch.nn.functional import cross_entropy

from harness import DynamoTestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import captured_splits
from suites import inductor
from suites.dynamo.base import ComparesLearned, learn
from suites.dynamo.models import MIB, FakeDDP, weight


class FakeDdpTestCase(ComparesLearned, DynamoTestCase):
    """A test in this process alone, with DDPOptimizer on."""

    def setUp(self):
        super().setUp()
        config.optimize_ddp = True
        inductor.settle()

    def check_split(self, model, *calls, names, cap_mb=1, backend="eager", graphs=None, **options):
        """Train a compiled stand-in beside the model, one step a call; return the one split.

        ``names`` are the parameters of each bucket; ``graphs`` how many graphs all calls make together, by
        default one a bucket: the first call's graphs serve all.
        """
        counter = self.counted(backend)
        compiled = torch.compile(FakeDDP(copy.deepcopy(model), cap_mb), backend=counter, **options)
        with captured_splits() as splits:
            for inputs in calls:
                self.same_learned(learn(compiled, *inputs), learn(model, *inputs), rtol=1e-5, atol=1e-4)
        self.assertEqual([split.names for split in splits], [names])
        self.assertEqual(counter.frame_count, len(names) if graphs is None else graphs)
        return splits[0]


class TestFakeDistributedSingleProc(FakeDdpTestCase):
    """Models that once did not survive the splitting."""

    def test_issue90375(self):
        class NoParameters(nn.Module):
            def forward(self):
                return torch.randn(3) * torch.randn(3)

        counter = self.counted("aot_eager")
        torch.manual_seed(5)
        expected = NoParameters()()
        torch.manual_seed(5)
        with captured_splits() as splits:
            output = torch.compile(FakeDDP(NoParameters()), backend=counter)()
        self.assertEqual(output, expected)
        self.assertEqual(counter.frame_count, 1)
        self.assertEqual([split.names for split in splits], [((),)])

    def test_symbol_splitting(self):
        class Doubled(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight1 = weight(512)
                self.weight2 = weight(512)

            def forward(self, x: Tensor) -> Tensor:
                x = torch.cat([x, x])
                y = x @ self.weight1
                return x + y @ self.weight2

        split = self.check_split(
            Doubled(),
            *((torch.randn(rows, 512),) for rows in (20, 30)),
            names=(("weight2",), ("weight1",)),
            backend="inductor",
            dynamic=True,
        )
        self.assertEqual(split.sizes, (MIB, MIB))
        self.assertIn("int", [value.dtype for value in split.buckets[0].inputs])

    def test_call_method_forward(self):
        class Attentive(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(
                    nn.ModuleList([nn.LayerNorm(96), nn.MultiheadAttention(96, 4, batch_first=True)])
                    for _ in range(2)
                )

            def forward(self, x: Tensor) -> Tensor:
                shape = x.shape
                for norm, attention in self.layers:
                    rows = norm(x.flatten(0, 1))
                    x = attention.forward(rows, rows, rows)[0].reshape(shape)
                return x

        parts = ("0.weight", "0.bias", "1.in_proj_weight", "1.in_proj_bias", "1.out_proj.weight")
        split = self.check_split(
            Attentive(),
            (torch.randn(2, 9, 20, 96),),
            names=(
                tuple(
                    f"layers.{layer}.{part}"
                    for layer in (1, 0)
                    for part in (*parts[2:], "1.out_proj.bias", *parts[:2])
                ),
            ),
            cap_mb=25,
            backend="aot_eager",
        )
        self.assertEqual(split.sizes, (299_520,))


class TestSplitLosses(FakeDdpTestCase):
    """A loss within the model, behind the last split: weights of classes, ignored classes, smoothing."""

    def by_hand(self, scores, targets, importance, *, reduction, ignored, smoothing):
        """The cross entropy from its definition."""
        logs = (scores - scores.amax(1, keepdim=True)).exp()
        logs = (logs / logs.sum(1, keepdim=True)).log()
        counted = (targets != ignored).float()
        own = importance[targets] * counted
        losses = -own * logs[range(len(targets)), targets] * (1 - smoothing)
        losses = losses - (importance * logs).sum(1) * counted * smoothing / len(importance)
        return losses.sum() / (own.sum() if reduction == "mean" else 1)

    def test_weights_and_ignored_classes(self):
        class Judged(nn.Module):
            def __init__(self, **rules):
                super().__init__()
                self.weight1, self.weight2 = weight(512), weight(512)
                self.register_buffer("importance", torch.tensor([1.0, 4.0, 0.25, 2.0, 0.5]))
                self.rules = rules

            def scores(self, x: Tensor) -> Tensor:
                return (x @ self.weight1 @ self.weight2)[:, :5]

            def forward(self, x: Tensor, targets: Tensor) -> Tensor:
                return cross_entropy(self.scores(x), targets, self.importance, **self.rules)

        calls = [
            (torch.randn(6, 512), torch.tensor(targets))
            for targets in ([0, 3, 1, 4, 3, 2], [3, 1, 1, 3, 0, 4])
        ]
        for reduction, ignored, smoothing in (("mean", 3, 0.0), ("sum", 1, 0.25)):
            with self.subTest(reduction=reduction):
                torch._dynamo.reset()
                model = Judged(reduction=reduction, ignore_index=ignored, label_smoothing=smoothing)
                rules = {"reduction": reduction, "ignored": ignored, "smoothing": smoothing}
                for x, targets in calls:
                    expected = self.by_hand(model.scores(x), targets, model.importance, **rules)
                    self.assertEqual(model(x, targets), expected, rtol=1e-4, atol=1e-4)
                self.check_split(model, *calls, names=(("weight2",), ("weight1",)), backend="aot_eager")


class TestUnbackedSplits(FakeDdpTestCase):
    """Sizes that only the data tell, made in one piece and needed in another."""

    def setUp(self):
        super().setUp()
        config.capture_scalar_outputs = True
        config.capture_dynamic_output_shape_ops = True

    def check_sizes(self, forward, *counts, crossings):
        """Train ``forward(self, x, counts)``, a piece for each of its weights, once with each ``counts``.

        ``crossings`` are the dtypes of what goes between the pieces and the piece that makes it.
        """

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight1, self.weight2, self.weight3 = weight(512), weight(512), weight(512)

            def forward(self, x: Tensor, counts: Tensor) -> Tensor:
                return forward(self, x, counts)

        x = torch.randn(20, 512)
        split = self.check_split(
            Model(),
            *((x, each) for each in counts),
            names=(("weight3",), ("weight2",), ("weight1",)),
            backend="aot_eager",
        )
        self.assertEqual(sorted((value.source, value.dtype) for value in split.crossings), crossings)

    def test_unbacked_symbol_splitting_direct(self):
        def forward(self, x, counts):
            (count,) = counts.tolist()
            y = (x @ self.weight1) @ self.weight2
            return (y @ self.weight3).sum() + x.new_ones(count).sum() * count

        self.check_sizes(
            forward,
            torch.tensor([3]),
            torch.tensor([5]),
            crossings=[(1, "float32"), (2, "float32"), (2, "int")],
        )

    def test_unbacked_symbol_splitting_indirect(self):
        # Behind the split there are only tensors of that size.
        def forward(self, x, counts):
            (count,) = counts.tolist()
            y = x.new_ones(count, 512) @ self.weight1 + x[0]
            return y @ self.weight2 @ self.weight3

        self.check_sizes(
            forward,
            torch.tensor([3]),
            torch.tensor([5]),
            crossings=[(1, "float32"), (2, "float32"), (2, "int")],
        )

    def test_unbacked_symbol_splitting_torture_multi(self):
        # Sizes from two pieces, both needed in the third: alone, added up, and as a tensor's.
        def forward(self, x, counts):
            first, second, third = counts.tolist()
            low = torch.cat([x, x.new_ones(first, 512)]) @ self.weight1
            more = x.new_ones(second, 512)
            low = torch.cat([low, more]) @ self.weight2
            found = counts.gt(1).nonzero()
            return (torch.cat([low, low]) @ self.weight3).sum(0) * (first + 2 * third) + found.sum()

        self.check_sizes(
            forward,
            torch.tensor([3, 4, 5]),
            torch.tensor([5, 2, 1]),
            crossings=[(1, "float32"), (1, "int"), (1, "int64"), (2, "float32"), *[(2, "int")] * 3],
        )

    def test_unbacked_symbol_splitting_no_binding(self):
        # No operator gives the size as a number: it is that of an operator's result.
        def forward(self, x, counts):
            y = counts.nonzero().to(x.dtype).expand(-1, 512) @ self.weight1
            return y @ self.weight2 @ self.weight3 + x[0]

        self.check_sizes(
            forward,
            torch.tensor([3, 0, 1, 0]),
            torch.tensor([1, 0, 4, 2]),
            crossings=[(1, "float32"), (2, "float32"), (2, "int")],
        )


if __name__ == "__main__":
    run_tests()
