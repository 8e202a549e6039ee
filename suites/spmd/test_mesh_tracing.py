"""Collectives over the dimensions of a mesh under ``make_fx``: one graph, replayed on other data.

Each test has a companion on four ranks: with the waits taken out of its graph, a rank that is early reads a
stale value, which the companion pins, and ``unwaited`` finds where. Tests compare with numpy; ranks have
different inputs, so that what another rank did not send cannot be right. The plain collectives, whose waits
``make_fx`` loses, become right by ``insert_waits``.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import collectives, insert_waits, strip_waits, unwaited
from suites.spmd import mesh_programs as programs
from suites.spmd.mesh_base import MeshTestCase, pending, returning_works
from suites.spmd.mesh_programs import numbers


class MeshCollectives:
    """Every functional collective, over every dimension that is tried."""

    def test_tracing_all_reduce_nd(self):
        self.check(programs.ALL_REDUCE)

    def test_all_reduce_with_other_reductions_nd(self):
        for program in programs.ALL_REDUCE_WITH.values():
            self.check(program)

    def test_broadcast_nd(self):
        self.check(programs.BROADCAST)

    def test_scatter_nd(self):
        self.check(programs.SCATTER)

    def test_all_gather_nd(self):
        self.check(programs.ALL_GATHER)

    def test_all_gather_of_columns_nd(self):
        self.check(programs.ALL_GATHER_COLUMNS)

    def test_reduce_scatter_nd(self):
        self.check(programs.REDUCE_SCATTER)

    def test_reduce_scatter_of_columns_nd(self):
        self.check(programs.REDUCE_SCATTER_COLUMNS)

    def test_all_to_all_nd(self):
        self.check(programs.ALL_TO_ALL)

    def test_uneven_all_to_all_nd(self):
        self.check(programs.ALL_TO_ALL_UNEVEN)

    def test_permute_nd(self):
        self.check(programs.PERMUTE)

    def test_all_reduce_coalesced_nd(self):
        self.check(programs.ALL_REDUCE_COALESCED)

    def test_all_gather_coalesced_nd(self):
        self.check(programs.ALL_GATHER_COALESCED)

    def test_reduce_scatter_coalesced_nd(self):
        self.check(programs.REDUCE_SCATTER_COALESCED)

    def test_blocking_operator_nd(self):
        self.check(programs.BLOCKING_SCATTER)

    def test_nested_functions_nd(self):
        # A dimension after the other is the whole mesh. The innermost function is a graph already.
        axes = list(self.axes())
        innermost = self.traced(programs.ALL_REDUCE, axes[0])

        def over(dims):
            if len(dims) == 1:
                return innermost
            inner, outer = over(dims[:-1]), dims[-1]
            return lambda t: programs.ALL_REDUCE.call(outer, inner(t) + outer.dim)

        whole = make_fx(over(axes))(torch.ones(3, 3, device=self.device))
        names = [node.target.name() for node in collectives(whole.graph)]
        self.assertEqual(names, ["_c10d_functional::all_reduce"] * len(axes))
        self.assertEqual(unwaited(whole.graph), [])
        groups = {node.args[2] for node in collectives(whole.graph)}
        self.assertEqual(len(groups), len(axes))
        expected = sum(numbers(rank, 3, 3) for rank in range(self.world_size))
        for axis in axes[1:]:
            # What was added before this dimension is summed over it and those after it.
            expected = expected + axis.dim * np.prod([each.size for each in axes[axis.dim :]])
        self.assertEqual(whole(*self.tensors([numbers(self.rank, 3, 3)])), expected.astype(np.float32))


class MeshWaits:
    """What a graph returns that does not wait. Groups of two."""

    def check_without_wait(self, program):
        """Check that the missing wait is found in the graph, and is missed when it runs."""
        axis = self.axis_of_test()
        right = self.traced(program, axis)
        broken = strip_waits(right)
        found = {each.collective.name for each in unwaited(broken.graph)}
        self.assertEqual(found, set(program.collectives))
        self.check_stale(broken, right, program, axis)

    def test_all_reduce_without_its_wait(self):
        self.check_without_wait(programs.ALL_REDUCE)

    def test_broadcast_without_its_wait(self):
        self.check_without_wait(programs.BROADCAST)

    def test_scatter_without_its_wait(self):
        self.check_without_wait(programs.SCATTER)

    def test_all_gather_without_its_wait(self):
        self.check_without_wait(programs.ALL_GATHER)

    def test_reduce_scatter_without_its_wait(self):
        self.check_without_wait(programs.REDUCE_SCATTER)

    def test_all_to_all_without_its_wait(self):
        self.check_without_wait(programs.ALL_TO_ALL)

    def test_permute_without_its_wait(self):
        self.check_without_wait(programs.PERMUTE)

    def test_all_reduce_coalesced_without_its_wait(self):
        self.check_without_wait(programs.ALL_REDUCE_COALESCED)

    def test_all_gather_coalesced_without_its_wait(self):
        self.check_without_wait(programs.ALL_GATHER_COALESCED)

    def test_reduce_scatter_coalesced_without_its_wait(self):
        self.check_without_wait(programs.REDUCE_SCATTER_COALESCED)


class MeshPlainCollectives:
    """``torch.distributed``'s own, in place: without a wait as they are traced, with one afterwards."""

    def check_plain(self, program):
        """Check that waits are missing, what comes of it, and that ``insert_waits`` is the remedy."""
        for axis in self.tried_axes():
            traced = self.traced(program, axis)
            self.assertEqual([node.name for node in collectives(traced.graph)], list(program.collectives))
            self.assertEqual(len(unwaited(traced.graph)), 1)
            self.assertEqual(insert_waits(traced), 1)
            self.assertEqual(unwaited(traced.graph), [])
            self.check_results(traced, program, axis)

    def test_broadcast_in_place_nd(self):
        self.check_plain(programs.PLAIN_BROADCAST)

    def test_scatter_in_place_nd(self):
        self.check_plain(programs.PLAIN_SCATTER)

    def test_in_place_without_a_wait(self):
        for program in (programs.PLAIN_BROADCAST, programs.PLAIN_SCATTER):
            for axis in self.tried_axes():
                right = self.traced(program, axis)
                insert_waits(right)
                broken = returning_works(self.traced(program, axis))
                self.check_stale(broken, right, program, axis)


class TraceDeviceMesh3DTest(MeshCollectives, MeshPlainCollectives, MeshTestCase):
    """Eight ranks, two by two by two."""

    world_size = 8
    layout = (((0, 1), (2, 3)), ((4, 5), (6, 7)))


class TraceDeviceMesh2DTest(MeshCollectives, MeshWaits, MeshPlainCollectives, MeshTestCase):
    """Four ranks, two by two."""

    world_size = 4
    layout = ((0, 1), (2, 3))

    def test_tracing_modes(self):
        # Fake tensors compute nothing while tracing; symbolic ones leave the sizes open as well, so that the
        # graph serves inputs of another.
        for program in (programs.ALL_REDUCE, programs.BROADCAST, programs.ALL_GATHER, programs.ALL_TO_ALL):
            for mode in ("fake", "symbolic"):
                axis = self.axis_of_test()
                traced = self.traced(program, axis, mode)
                self.assertEqual(pending(), 0)
                self.check_graph(traced, program)
                self.check_results(traced, program, axis)
                if mode == "symbolic":
                    self.check_results(traced, program, axis, times=2)


class TraceDeviceMeshOfUnlikeDimensionsTest(MeshCollectives, MeshTestCase):
    """Eight ranks, two by four, numbered along the columns."""

    world_size = 8
    layout = ((0, 2, 4, 6), (1, 3, 5, 7))


if __name__ == "__main__":
    run_tests()
