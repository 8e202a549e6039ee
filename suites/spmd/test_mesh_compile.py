"""The traced mesh collectives under ``torch.compile(fullgraph=True)``: one graph, and what it returns.

The same programs as in ``test_mesh_tracing``, on a two by two mesh: a sum over both of its dimensions in one
function, the others over one of them. Graphs run as AOTAutograd made them; one test has inductor generate
code.
"""

from __future__ import annotations

import sys
import unittest
from contextlib import contextmanager
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._dynamo.utils import CleanupManager, counters

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.cases.dynamo import clean_compiler
from harness.releases import torch_at_least
from harness.targets import Capability, needs
from suites.counted import Work
from suites.inductor import settle
from suites.spmd import mesh_programs as programs
from suites.spmd.mesh_base import RUN_ON, MeshTestCase, listed, pending


@contextmanager
def compiling():
    """A region that starts with nothing compiled, and after which nothing of what it compiled holds a mesh.

    Resetting the compiler is not enough: torch's flight recorder keeps the code of each caller of a
    collective, the compiled code among them, and as long as that lives dynamo keeps its graph, with the mesh.
    """
    with clean_compiler():
        yield
    for hooks in CleanupManager.instance.values.values():
        for hook in hooks:
            hook()
        hooks.clear()


class MeshCompileTest(MeshTestCase):
    """Four ranks, two by two."""

    world_size = 4
    layout = ((0, 1), (2, 3))

    all_axes_up_to = 2

    def check_compiled(self, program, axes=None):
        """Check a program over dimensions, in one function: its one graph, and what it returns."""
        axes, graphs = axes or self.tried_axes(), []

        def over_axes(*given):
            return [listed(program.call(axis, *mine)) for axis, mine in zip(axes, given, strict=True)]

        with compiling():
            compiled = self.compiled(over_axes, graphs)
            for added in RUN_ON:
                given = [self.tensors(self.inputs(program, axis, self.rank, added)) for axis in axes]
                answers = [self.answer(program, axis, added) for axis in axes]
                results = compiled(*given)
                self.assertEqual(pending(), 0, "collectives that nobody has waited for")
                self.assertEqual(results, answers, f"added {added}")
            self.assertEqual(counters["stats"]["unique_graphs"], 1)
            self.assertEqual(counters["graph_break"], {})
        self.assertEqual(len(graphs), 1)
        self.check_graph(graphs[0], program, times=len(axes))

    def compiled(self, run, graphs):
        """Return ``run``, compiled without a graph break; AOTAutograd's graphs go to ``graphs``."""

        def compiler(module, inputs):
            graphs.append(module)
            return boxed_nop(module, inputs)

        return torch.compile(run, backend=aot_autograd(fw_compiler=compiler), fullgraph=True)

    def test_all_reduce(self):
        self.check_compiled(programs.ALL_REDUCE, list(self.axes()))

    def test_all_reduce_with_other_reductions(self):
        for program in programs.ALL_REDUCE_WITH.values():
            self.check_compiled(program)

    def test_broadcast(self):
        self.check_compiled(programs.BROADCAST)

    def test_scatter(self):
        self.check_compiled(programs.SCATTER)

    def test_all_gather(self):
        self.check_compiled(programs.ALL_GATHER)

    @unittest.skipUnless(torch_at_least("2.13"), "dynamo can trace it from torch 2.13 on")
    def test_all_gather_of_columns(self):
        self.check_compiled(programs.ALL_GATHER_COLUMNS)

    def test_reduce_scatter(self):
        self.check_compiled(programs.REDUCE_SCATTER)

    def test_reduce_scatter_of_columns(self):
        self.check_compiled(programs.REDUCE_SCATTER_COLUMNS)

    def test_all_to_all(self):
        self.check_compiled(programs.ALL_TO_ALL)

    def test_uneven_all_to_all(self):
        self.check_compiled(programs.ALL_TO_ALL_UNEVEN)

    def test_permute(self):
        self.check_compiled(programs.PERMUTE)

    def test_all_reduce_coalesced(self):
        self.check_compiled(programs.ALL_REDUCE_COALESCED)

    def test_all_gather_coalesced(self):
        self.check_compiled(programs.ALL_GATHER_COALESCED)

    def test_reduce_scatter_coalesced(self):
        self.check_compiled(programs.REDUCE_SCATTER_COALESCED)

    def test_blocking_operator(self):
        self.check_compiled(programs.BLOCKING_SCATTER)


class MeshInductorTest(MeshTestCase):
    """Two ranks in a line. Inductor leaves threads and variables behind, so that ranks are not kept."""

    world_size = 2
    layout = (0, 1)
    rank_modes = ("fresh",)

    @needs(Capability.INDUCTOR)
    def test_inductor(self):
        # One of each kind that inductor lowers by itself.
        several = (programs.ALL_REDUCE, programs.ALL_GATHER, programs.REDUCE_SCATTER, programs.ALL_TO_ALL)
        (axis,) = self.axes()

        def each(*given):
            return [listed(program.call(axis, *mine)) for program, mine in zip(several, given, strict=True)]

        with compiling():
            settle()
            before = Work.so_far().calls
            compiled = torch.compile(each, fullgraph=True)
            for added in RUN_ON:
                given = [self.tensors(self.inputs(program, axis, self.rank, added)) for program in several]
                answers = [self.answer(program, axis, added) for program in several]
                results = compiled(*given)
                self.assertEqual(pending(), 0)
                self.assertEqual(results, answers, f"added {added}")
            self.assertEqual(counters["stats"]["unique_graphs"], 1)
            work = Work.so_far()
            self.assertEqual(work.graphs, 1)
            self.assertGreater(work.calls - before, 0, "inductor has generated no code")


if __name__ == "__main__":
    run_tests()
