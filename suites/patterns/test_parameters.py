"""``nn.Parameter`` made and returned by compiled code."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch._dynamo import config
from torch._dynamo.exc import Unsupported

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.patterns.base import PatternTestCase, fullgraph


class DistributedPatternTests(PatternTestCase):
    """What comes out is a parameter, and what is computed from it reaches it in the backward."""

    def check(self, function, *, backward, backend="aot_eager"):
        x = torch.randn(16)
        expected = function(x.clone())
        with self.compiles(**{backend: 1}):
            actual = fullgraph(function, backend)(x.clone())
        self.assertIsInstance(actual[0], nn.Parameter)
        if backward:
            for results in (expected, actual):
                results[1].sum().backward()
            self.assertIsNotNone(expected[0].grad)
        for one, other in zip(actual, expected, strict=True):
            self.assert_same_grad(one, other)

    def test_nn_param_return1(self):
        def function(x):
            p = nn.Parameter(x)
            return p, p.sin()

        self.check(function, backward=True, backend="inductor")

    def test_nn_param_return2(self):
        def function(x):
            p = nn.Parameter(x, requires_grad=False)
            return p, x + 1

        self.check(function, backward=False)

    def of_something_computed(self, x):
        p = nn.Parameter(x + 123)
        return p, p.sin()

    def test_nn_param_return3(self):
        with config.patch(graph_break_on_nn_param_ctor=False):
            self.check(self.of_something_computed, backward=True)

    def test_nn_param_return4(self):
        def function(x):
            p = nn.Parameter(x + 123, requires_grad=False)
            return p, x + 1

        with config.patch(graph_break_on_nn_param_ctor=False):
            self.check(function, backward=False)

    def test_nn_param_of_something_computed_breaks_the_graph(self):
        """By default: so the setting that the tests above patch is what they need."""
        with self.assertRaises(Unsupported):
            fullgraph(self.of_something_computed)(torch.randn(16))


if __name__ == "__main__":
    run_tests()
