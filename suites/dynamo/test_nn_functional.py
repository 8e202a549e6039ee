"""The differentiable collectives of ``torch.distributed.nn.functional``: compiled, they have to say no.

Traced as they are, their backward would be lost without a word.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch._dynamo.exc import Unsupported
from torch._dynamo.testing import CompileCounter
from torch.distributed.nn import functional

from harness import DynamoTestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.cases.dynamo import _dynamo_dist_per_rank_init
from harness.releases import torch_at_least

WORLD_SIZE = 2
#: How a functional collective is called that takes or gives the ranks' parts as one tensor.
WHOLE = "single" if torch_at_least("2.13") else "tensor"


@unittest.skipUnless(torch_at_least("2.12"), "torch 2.11 lets them be traced, or breaks the graph")
class TestNNFunctionalCompile(DynamoTestCase):
    """Rank 0 of a group that has no peers: nothing may get as far as communicating."""

    def setUp(self):
        super().setUp()
        joined = _dynamo_dist_per_rank_init(0, WORLD_SIZE, fake_pg=True)
        joined.__enter__()
        self.addCleanup(joined.__exit__, None, None, None)

    def check_refused(self, name, call, instead=None):
        """Compile ``call(collective, x)``; check that the collective is refused by its name, and why.

        ``instead`` is the functional collective that the message has to recommend.
        """
        collective = getattr(functional, name)
        counter = CompileCounter()

        @torch.compile(backend=counter, fullgraph=True)
        def run(x):
            return call(collective, x)

        with self.assertRaises(RuntimeError) as caught:
            run(torch.randn(4, requires_grad=True))
        self.assertIsInstance(caught.exception, Unsupported)
        said = f"torch.distributed.nn.functional.{name} is not supported under torch.compile."
        if instead is not None:
            said += f" Use torch.distributed._functional_collectives.{instead} instead."
        self.assertIn(f"RuntimeError({said!r})", str(caught.exception))
        self.assertEqual(counter.frame_count, 0)

    def test_all_reduce(self):
        self.check_refused("all_reduce", lambda f, x: f(x), "all_reduce")

    def test_all_gather(self):
        self.check_refused("all_gather", lambda f, x: f(x), f"all_gather_{WHOLE}")

    def test_reduce_scatter(self):
        self.check_refused("reduce_scatter", lambda f, x: f(x, [x, x]), f"reduce_scatter_{WHOLE}")

    def test_all_to_all_single(self):
        self.check_refused("all_to_all_single", lambda f, x: f(x, x), "all_to_all_single")

    def test_broadcast(self):
        self.check_refused("broadcast", lambda f, x: f(x, 0), "broadcast")

    def test_gather(self):
        self.check_refused("gather", lambda f, x: f(x))

    def test_scatter(self):
        self.check_refused("scatter", lambda f, x: f([x, x]))

    def test_reduce(self):
        self.check_refused("reduce", lambda f, x: f(x, 0))

    def test_all_gather_base(self):
        self.check_refused("_all_gather_base", lambda f, x: f(x, x))

    def test_all_to_all(self):
        self.check_refused("all_to_all", lambda f, x: f([x, x], [x, x]))


if __name__ == "__main__":
    run_tests()
