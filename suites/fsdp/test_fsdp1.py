"""Compiled FSDP1 on two ranks: what dynamo captures of it, what it breaks on, and what comes out."""

from __future__ import annotations

import functools
import sys
import warnings
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.distributed.fsdp.wrap import lambda_auto_wrap_policy, transformer_auto_wrap_policy

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs
from suites.fsdp import reference
from suites.fsdp.base import FsdpTestCase, checkpointed, function_name
from suites.fsdp.models import Hidden, Mutating, Pairs, Toy

#: The one graph break that dynamo finds in FSDP1's own code, by device type: a call of the device's module,
#: and elsewhere an attribute that it sets on a parameter.
OWN_BREAK = {"cpu": "is_available", "cuda": "Tensor.requires_grad"}


@needs(Capability.FSDP1)
class Fsdp1Test(FsdpTestCase):
    """The tests of upstream's multi-process class that are about FSDP1, by their names there."""

    sharding = "FSDP1"

    def check_trained(self, model, sharded, compiled, units):
        """Train three steps beside ``model``; ``units`` are the parameters' names unit by unit."""

        def shards(values):
            return reference.flat_shards(values, units, self.rank, self.world_size)

        rows = reference.batches(3, self.world_size, model.WIDTHS)
        self.train(compiled, sharded, model, shards, rows)

    def check_toy(self, backend):
        """The toy whole: one graph; then with each linear layer in a unit of its own: none.

        Dynamo leaves the frames between units to Python there, and those inside belong to torch's own
        modules, which are not compiled for themselves. So the second half is about the way back.
        """
        model = Toy()
        names = [name for name, _ in model.named_parameters()]
        layers = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.Linear})
        for policy, units, graphs in (
            (None, [names], [{"linear": 4, "relu": 4}]),
            (layers, [names[n : n + 2] for n in range(0, len(names), 2)], []),
        ):
            with self.subTest(units=len(units)):
                torch._dynamo.reset()
                counter = self.counted(backend)
                sharded = self.fsdp1(model, auto_wrap_policy=policy)
                self.check_trained(model, sharded, torch.compile(sharded, backend=counter), units)
                self.check_graphs(counter, *graphs)

    def test_fsdp_aot_eager(self):
        self.check_toy("aot_eager")

    def test_fsdp_inductor(self):
        self.check_toy("inductor")

    def test_fsdp_setattr(self):
        """Setting an attribute of the model, or FSDP one of its own, is no graph break."""
        model = Mutating()
        counter = self.counted("eager")
        sharded = self.fsdp1(model)
        compiled = torch.compile(sharded, backend=counter, fullgraph=False)
        names = [name for name, _ in model.named_parameters()]
        self.check_trained(model, sharded, compiled, [names])
        self.check_graphs(counter, {"linear": 4, "mul": 1})
        self.assertEqual(sharded.state, 2)
        self.check_own_break()

    def check_own_break(self):
        """Check that the only graph break is FSDP's own, and neither of the attributes."""
        reasons = list(counters["graph_break"])
        self.assertEqual(len(reasons), 1, reasons)
        self.assertIn(OWN_BREAK[self.device_type], reasons[0])
        for attribute in ("state", "_is_root"):
            self.assertNotRegex(reasons[0], rf"setattr.*\b{attribute}\b")

    def test_fsdp_activation_checkpointing(self):
        """Two units that are recomputed, with a ReLU behind each: a graph each, with one checkpoint in it.

        Each of two layers has two products in the backward, but for the gradient of the model's input. The
        first layer of each unit is computed again.
        """
        model = Pairs()
        pairs = functools.partial(lambda_auto_wrap_policy, lambda_fn=Pairs.is_pair)
        sharded = checkpointed(self.fsdp1(model, auto_wrap_policy=pairs), Pairs.is_pair)
        counter = self.counted("aot_eager")
        names = [name for name, _ in model.named_parameters()]
        self.check_trained(model, sharded, torch.compile(sharded, backend=counter), [names[:4], names[4:]])
        self.check_graphs(counter, *[{"tag_activation_checkpoint": 1}] * 2)
        self.assertEqual(counter.products(), [4 + 1, 3 + 1])
        called = {node.target for node in counter.graphs[0].graph.nodes}
        self.assertIn(tag_activation_checkpoint, called)

    def check_hidden(self):
        """Compile a module whose second layer is none of its modules, and train the first.

        Both layers are in the one graph, as functions or as modules.
        """
        model = Hidden()
        counter = self.counted("eager")
        sharded = self.fsdp1(model)
        sharded.hidden.to(self.device)
        compiled = torch.compile(sharded, backend=counter)
        self.check_trained(model, sharded, compiled, [["first.weight", "first.bias"]])
        self.check_graphs(counter, {"relu": 1})
        (graph,) = counter.graphs
        functions = sum(function_name(node) == "linear" for node in graph.graph.nodes)
        modules = [graph.get_submodule(node.target) for node in graph.graph.find_nodes(op="call_module")]
        self.assertEqual(functions + sum(type(module) is nn.Linear for module in modules), 2)

    def test_fsdp_unspecialized_forced_getattr_inline(self):
        self.check_hidden()

    def test_fsdp_unspecialized_forced_getattr_no_inline(self):
        """With a setting that is to keep modules as nodes of the graph; torch 2.13 inlines them anyway."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)
            torch._dynamo.config.inline_inbuilt_nn_modules = False
            self.check_hidden()


if __name__ == "__main__":
    run_tests()
