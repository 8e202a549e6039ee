"""Strides and sizes across DDPOptimizer's splits: a piece must take what the one before it really gives.

Inductor may lay an output out as it likes. What follows is compiled in the belief that it knows the strides,
and checks them when it runs: a wrong belief fails the call.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import Tensor, nn
from torch._inductor import config as inductor_config

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import captured_splits
from suites.dynamo.base import DdpCompileTestCase, learn
from suites.dynamo.models import FakeDDP

CHANNELS = 512
#: 1x1 convolutions are sums over 512 channels.
SUMMED = {"rtol": 1e-4, "atol": 1e-5}


class Convolutions(nn.Module):
    """Three 1x1 convolutions whose weights are 1 MiB each, with something after each."""

    def __init__(self, after: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False) for _ in range(3))
        self.after = after

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.after(layer(x))
        return x


class Transposed(nn.Module):
    """Two layers, the first on a transposed input."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow = nn.Linear(30, 70)
        self.wide = nn.Linear(3500, 2048)

    def forward(self, x: Tensor) -> Tensor:
        return self.wide(self.narrow(x.transpose(2, 1)).flatten(1))


class TestSplitLayouts(DdpCompileTestCase):
    """In one process, with inductor."""

    def check_layouts(self, after):
        """Train or run the convolutions, compiled in two pieces; return the like of what is between."""
        model = Convolutions(after).to(self.device)
        x = torch.randn(2, CHANNELS, 16, 16, device=self.device)
        step = learn if torch.is_grad_enabled() else (lambda one, x: one(x))
        expected = step(copy.deepcopy(model), x)
        told, counter = [], self.counted("inductor")

        def backend(graph, inputs):
            told.extend(each.stride() for each in inputs if each.shape == x.shape)
            return counter(graph, inputs)

        with captured_splits() as splits:
            actual = step(torch.compile(self.wrap(model, bucket_cap_mb=25), backend=backend), x)
        if torch.is_grad_enabled():
            self.same_learned(actual, expected, **SUMMED)
        else:
            self.assertEqual(actual, expected, **SUMMED)
        self.assertEqual(
            [split.names for split in splits],
            [(("layers.2.weight",), ("layers.1.weight", "layers.0.weight"))],
        )
        self.assertEqual(counter.frame_count, 2)
        entry, between = told
        self.assertEqual(entry, x.stride())
        return torch.empty_strided(x.shape, between)

    def check_both(self):
        self.check_layouts(nn.ReLU())
        torch._dynamo.reset()
        # A convolution gives its result with the channels last, unless something is computed from it.
        between = self.check_layouts(nn.Identity())
        self.assertTrue(between.is_contiguous(memory_format=torch.channels_last))

    @inductor_config.patch(layout_optimization=True, keep_output_stride=False)
    def test_graph_split_inductor_layout_optimizations_training(self):
        self.check_both()

    @inductor_config.patch(layout_optimization=True, keep_output_stride=False)
    def test_graph_split_inductor_layout_optimizations_inference(self):
        with torch.no_grad():
            self.check_both()

    @torch.no_grad()  # for sizes that vary, inductor would compile the backward as well, which nothing runs
    def test_graph_split_inductor_transpose(self):
        model = Transposed().to(self.device)
        counter = self.counted("inductor")
        ddp = self.wrap(model)
        ddp.module.compile(backend=counter)
        for rows, graphs in ((100, 2), (200, 4), (300, 4)):
            x = torch.randn(rows, 30, 50, device=self.device)
            self.assertEqual(ddp(x), model(x), **SUMMED)
            self.assertEqual(counter.frame_count, graphs, f"{rows} rows")

    def test_ddp_optimizer_inductor_strides_dont_specialize(self):
        model = nn.ModuleList([nn.Linear(768, 768) for _ in range(2)]).to(self.device)

        class Both(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = model

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x

        counter = self.counted("inductor")
        compiled = torch.compile(FakeDDP(Both(), bucket_cap_mb=1), backend=counter)
        for rows in (18, 20):
            x = torch.randn(16, rows, 768, device=self.device)
            torch._dynamo.mark_dynamic(x, 1)
            self.assertEqual(compiled(x), Both()(x), **SUMMED)
            self.assertEqual(counter.frame_count, 2, f"{rows} rows")


if __name__ == "__main__":
    run_tests()
