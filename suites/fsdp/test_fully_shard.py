"""Compiled FSDP2 on two ranks: what dynamo captures of it, what it breaks on, and what comes out.

The names are those under which upstream tests FSDP, which it has moved from FSDP1 to ``fully_shard``.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.fsdp import reference
from suites.fsdp.base import FsdpTestCase, checkpointed
from suites.fsdp.models import (
    DifferentSources,
    Hidden,
    Mutating,
    Pairs,
    SameSource,
    Toy,
    WithStaticMethod,
)


class FullyShardTest(FsdpTestCase):
    """Sharded in place, compiled from outside."""

    def train_compiled(self, model, *units, backend="eager", recomputed=None, steps=3, **options):
        """Shard a copy, compile it, and train it beside ``model``.

        Returns the backend, which kept the graphs, and what was sharded.
        """
        sharded = copy.deepcopy(model)
        if recomputed is not None:
            checkpointed(sharded, recomputed)
        self.fsdp2(sharded, *units)
        counter = self.counted(backend)

        def shards(values):
            return reference.row_shards(values, self.rank, self.world_size)

        rows = reference.batches(steps, self.world_size, model.WIDTHS)
        self.train(torch.compile(sharded, backend=counter, **options), sharded, model, shards, rows)
        return counter, sharded

    def check_toy(self, backend):
        """The toy whole: one graph; then with each linear layer in a unit of its own."""
        counter, _ = self.train_compiled(Toy(), backend=backend)
        self.check_graphs(counter, {"linear": 4, "relu": 4})
        torch._dynamo.reset()
        counter, _ = self.train_compiled(Toy(), nn.Linear, backend=backend)
        self.check_graphs(counter)

    def test_fsdp_aot_eager(self):
        self.check_toy("aot_eager")

    def test_fsdp_inductor(self):
        self.check_toy("inductor")

    def test_fsdp_setattr(self):
        """Setting an attribute of the model is no graph break, and neither is anything of FSDP's."""
        counter, sharded = self.train_compiled(Mutating())
        self.check_graphs(counter, {"linear": 4, "mul": 1})
        self.assertEqual(sharded.state, 2)
        self.assertEqual(dict(counters["graph_break"]), {})

    def test_fsdp_activation_checkpointing(self):
        """Two units that are recomputed, with a ReLU behind each: a graph each, with one checkpoint in it.

        Each of two layers has two products in the backward, but for the gradient of the model's input. The
        first layer of each unit is computed again.
        """
        counter, _ = self.train_compiled(
            Pairs(), CheckpointWrapper, backend="aot_eager", recomputed=Pairs.is_pair
        )
        self.check_graphs(counter, *[{"tag_activation_checkpoint": 1}] * 2)
        self.assertEqual(counter.products(), [4 + 1, 3 + 1])

    def test_fsdp_unspecialized_forced_getattr_inline(self):
        """A layer that only the module's ``__dict__`` knows of is found, and sharded by nobody."""
        counter, sharded = self.train_compiled(Hidden())
        self.check_graphs(counter, {"linear": 2, "relu": 1})
        self.assertEqual(sharded.hidden.weight.shape, (5, 8))
        self.assertIs(type(sharded.hidden.weight), nn.Parameter)

    def test_fsdp_dup_tensors_same_source(self):
        """A tensor that is used twice is one input of the graph; with no parameter there is none to shard."""
        model = SameSource()
        counter = self.counted("aot_eager")
        compiled = torch.compile(self.fsdp2(copy.deepcopy(model)), backend=counter)
        for batch in reference.batches(3, self.world_size, model.WIDTHS):
            rows = batch.of(self.rank).inputs
            self.assertEqual(compiled(rows.to(self.device)).cpu(), model(rows))
        self.check_inputs(counter, 3)

    def test_fsdp_dup_tensors_diff_source(self):
        """A buffer that two modules have is one input, and no step of fifteen is compiled anew."""
        torch._dynamo.config.guard_nn_modules = True
        counter, _ = self.train_compiled(DifferentSources(), backend="aot_eager", steps=15)
        self.check_inputs(counter, 3)

    def check_inputs(self, counter, count):
        """Check that there is one graph, and how many inputs it has."""
        self.assertEqual(counter.frame_count, 1)
        self.assertEqual(len(counter.graphs[0].graph.find_nodes(op="placeholder")), count)

    def test_fsdp_staticmethod(self):
        """A static method is traced, by whatever it is called."""
        for on_self in (True, False):
            with self.subTest(on_self=on_self):
                torch._dynamo.reset()
                counter, _ = self.train_compiled(WithStaticMethod(on_self), backend="aot_eager")
                self.check_graphs(counter, {"add": 1, "imul": 1})


if __name__ == "__main__":
    run_tests()
