"""Compiled FSDP1 in a group of one: guards, duplicate tensors, static methods, what is refused.

One rank shards nothing, so these are about what dynamo makes of a module that FSDP manages; what a module
learns there is compared all the same.
"""

from __future__ import annotations

import copy
import io
import re
import sys
import warnings
from collections import Counter
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch._dynamo.comptime import comptime
from torch._dynamo.exc import Unsupported
from torch._dynamo.utils import counters
from torch.distributed.fsdp import FullyShardedDataParallel

from harness import (  # noqa: F401  (unittest calls load_tests)
    DynamoDistributedSingleProcTestCase,
    load_tests,
    run_tests,
)
from harness.targets import Capability, needs
from suites.counted import CountsCompiles
from suites.fsdp.base import ROUNDED, function_name, held
from suites.fsdp.models import DifferentSources, SameSource, Toy, WithStaticMethod
from suites.inductor import settle

#: What a traced forward prints its guards to. A global: dynamo prints nothing to what a closure holds.
PRINTED = io.StringIO()
#: What is guarded of the model, in this order: itself, its Sequential, and the first of its layers.
GUARDED = ["L['self']", "L['self']._modules['net']", "L['self']._modules['net']._modules['0']"]
REFUSAL = "Dynamo only supports FSDP with use_orig_params=True"


class GuardPrinting(Toy):
    """Prints, as it is traced, the guards that dynamo has installed until then."""

    def forward(self, x):
        out = super().forward(x)

        @comptime
        def _(context):
            context.print_guards(file=PRINTED)

        return out


@needs(Capability.FSDP1)
class Fsdp1AloneTest(CountsCompiles, DynamoDistributedSingleProcTestCase):
    """The tests of upstream's single-process class that are about FSDP1, by their names there."""

    def setUp(self):
        super().setUp()
        settle()
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.filterwarnings("ignore", message="FSDP is switching to use `NO_SHARD`")

    def wrap(self, model, **options):
        """A copy of the model in FSDP1, on this test's device."""
        options = {"use_orig_params": True, "device_id": torch.device(self.device), **options}
        return FullyShardedDataParallel(copy.deepcopy(model), **options)

    def draw(self, *shape):
        """Normally distributed numbers on this test's device."""
        return torch.randn(*shape, device=self.device)

    def same_gradients(self, sharded, plain):
        """Check that both have the same gradients, parameter by parameter."""
        gradients, _ = held(sharded)
        expected = {name: parameter.grad.flatten() for name, parameter in plain.named_parameters()}
        self.assertEqual(gradients, expected, **ROUNDED)

    def compile_beside(self, plain, x, *, calls=1, **options):
        """Compile a sharded copy with a counter and compare each of so many calls, then all gradients.

        Returns the counter, whose one graph serves all calls.
        """
        plain.to(self.device)
        counter = self.counted("aot_eager")
        sharded = self.wrap(plain, **options)
        compiled = torch.compile(sharded, backend=counter)
        for _ in range(calls):
            self.assertEqual(compiled(x), plain(x), **ROUNDED)
        self.assertEqual(counter.frame_count, 1)
        if any(parameter.requires_grad for parameter in plain.parameters()):
            compiled(x).square().mean().backward()
            plain(x).square().mean().backward()
            self.same_gradients(sharded, plain)
            self.assertEqual(counter.frame_count, 1)
        return counter

    def test_fsdp_orig_params_assert(self):
        """Without the original parameters FSDP1 is a graph break, or an error where none is allowed."""
        plain, x = Toy().to(self.device), self.draw(4, 10)
        sharded = self.wrap(plain, use_orig_params=False)
        counter = self.counted()
        self.assertEqual(torch.compile(sharded, backend=counter)(x), plain(x), **ROUNDED)
        self.assertEqual(counter.frame_count, 0)
        self.assertEqual(len(counters["graph_break"]), 1)
        self.assertIn(REFUSAL, next(iter(counters["graph_break"])))
        torch._dynamo.reset()
        with self.assertRaisesRegex(Unsupported, re.escape(REFUSAL)):
            torch.compile(sharded, backend="eager", fullgraph=True)(x)

    def test_fsdp_skip_guards(self):
        """Modules that FSDP manages have a source of their own, by which their guards are left out; with
        ``skip_fsdp_guards`` off they are guarded as any module is."""
        x = self.draw(4, 10)
        for skip, words in (
            (True, {"local_fsdp_module"}),
            (False, {"local", "local_unspecialized_nn_module"}),
        ):
            with self.subTest(skip=skip):
                torch._dynamo.reset()
                torch._dynamo.config.skip_fsdp_guards = skip
                PRINTED.seek(0)
                PRINTED.truncate()
                self.compile_beside(GuardPrinting(), x)
                guards = re.findall(
                    r"^ *(\w+) \"(L\['self'\]\S*)\" TYPE_MATCH", PRINTED.getvalue(), re.MULTILINE
                )
                guards = [(word, source) for word, source in guards if source in GUARDED]
                self.assertEqual([source for _, source in guards], GUARDED)
                self.assertEqual(guards[0][0], "local")
                self.assertLessEqual({word for word, _ in guards[1:]}, words)

    def test_fsdp_skip_register_attr_or_module(self):
        """The parameters of managed modules come into the graph as its inputs, and as nothing else."""
        counter = self.compile_beside(Toy(layers=2), self.draw(4, 10))
        (graph,) = counter.graphs
        operations = Counter(node.op for node in graph.graph.nodes)
        self.assertEqual(operations["get_attr"], 0)
        self.assertEqual(operations["placeholder"], 5)

    def test_fsdp_dup_tensors_same_source(self):
        """A tensor that is used twice is one input of the graph, whoever asks for it."""
        counter = self.compile_beside(SameSource(), self.draw(2, 3))
        (graph,) = counter.graphs
        self.assertEqual(len(graph.graph.find_nodes(op="placeholder")), 3)

    def test_fsdp_dup_tensors_diff_source(self):
        """A buffer that two modules have is one input too, and no call of fifteen is compiled anew.

        Both change it in place at each call, so a graph that had copied it would soon be far off.
        """
        torch._dynamo.config.guard_nn_modules = True
        plain = DifferentSources()
        self.assertIs(plain.buffer, plain.child.buffer)
        counter = self.compile_beside(plain, self.draw(2, 3), calls=15)
        (graph,) = counter.graphs
        self.assertEqual(len(graph.graph.find_nodes(op="placeholder")), 3)

    def test_fsdp_staticmethod(self):
        """A static method is traced, by whatever it is called."""
        for on_self in (True, False):
            with self.subTest(on_self=on_self):
                torch._dynamo.reset()
                counter = self.compile_beside(WithStaticMethod(on_self), self.draw(2, 3))
                (graph,) = counter.graphs
                called = Counter(map(function_name, graph.graph.nodes))
                self.assertEqual((called["add"], called["imul"]), (1, 1))


if __name__ == "__main__":
    run_tests()
