"""Ranks that tell each other what they compile: collectives during compilation and during guards.

Without them each rank compiles what its own inputs ask for, and one that compiles makes its peers wait. Each
test runs with them and without, and counts what each rank compiled.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch._dynamo import config, distributed

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.dynamo.base import CompilersTalk, DdpRanksTestCase


class CollectivesTestCase(DdpRanksTestCase):
    """Two ranks, and a function that both compile."""

    def compiles(self, function, *calls, talk):
        """Call a compiled function as each of ``calls`` says; return how many graphs each rank has compiled.

        Each call is checked against the function itself. ``talk``: whether the compiler has to have asked the
        other ranks.
        """
        counter = self.counted()
        compiled = torch.compile(function, backend=counter)
        with mock.patch.object(dist, "all_gather_object", wraps=dist.all_gather_object) as asked:
            for inputs in calls:
                self.assertEqual(compiled(*inputs), function(*inputs))
        self.assertEqual(asked.called, talk)
        counts = [None] * self.world_size
        dist.all_gather_object(counts, counter.frame_count)
        return counts


class TestCompilerCollectives(CompilersTalk, CollectivesTestCase):
    """``enable_compiler_collectives``: all ranks compile for what any of them has seen."""

    def check(self, function, *calls, alone, together):
        """Check how many graphs each rank compiles: by itself, and with its peers."""
        for talk, expected in ((False, alone), (True, together)):
            with self.subTest(talk=talk), config.patch(enable_compiler_collectives=talk):
                torch._dynamo.reset()
                self.assertEqual(self.compiles(function, *calls, talk=talk), expected)

    def mine(self, *by_rank):
        """Return what is this rank's."""
        return by_rank[self.rank]

    def test_compiler_collectives_automatic_dynamic_tensor(self):
        # Each rank's sizes are its own, so they are dynamic at once, and a second size needs no second graph.
        def function(x, y):
            return x.sum() + y.sum()

        calls = [(torch.randn(size), torch.randn(size)) for size in self.mine((3, 4), (5, 6))]
        self.check(function, *calls, alone=[2, 2], together=[1, 1])

    def test_compiler_collectives_automatic_dynamic_scalar(self):
        def function(x, number):
            return x * number

        calls = [(torch.ones(3), number) for number in self.mine((3, 4), (5, 6))]
        self.check(function, *calls, alone=[2, 2], together=[1, 1])

    def test_compiler_collectives_automatic_dynamic_speculation_divergence(self):
        def function(x, y):
            if x.size(0) == y.size(0):
                x = x * 2
            return x.sum() + y.sum()

        calls = [(torch.randn(size), torch.randn(size)) for size in self.mine((4, 4), (3, 4))]
        self.check(function, *calls, alone=[1, 2], together=[1, 1])

    def test_compiler_collectives_graph_break_empty_graph_still_collective(self):
        def function(x, y):
            torch._dynamo.graph_break()  # nothing to compile before it
            return x.sum() + y.sum()

        calls = [(torch.randn(size), torch.randn(size)) for size in self.mine((3, 4), (5, 6))]
        self.check(function, *calls, alone=[2, 2], together=[1, 1])

    def test_compiler_collectives_dim_mismatch(self):
        def function(x):
            return x.sum()

        calls = [(torch.randn(shape),) for shape in self.mine(((5,), (6,)), ((5, 5), (5, 6)))]
        self.check(function, *calls, alone=[2, 2], together=[1, 1])

    def test_compiler_collectives_missing_source(self):
        rank = self.rank

        def function(xs):
            return xs[rank].sum()

        calls = [([torch.randn(size), torch.randn(size)],) for size in self.mine((3, 4), (5, 6))]
        self.check(function, *calls, alone=[2, 2], together=[2, 2])

    def test_compiler_collectives_scalar_missing_source(self):
        rank = self.rank

        def function(x, numbers):
            return x * numbers[rank]

        calls = [(torch.ones(3), [number, number]) for number in self.mine((3, 4), (5, 6))]
        self.check(function, *calls, alone=[2, 2], together=[2, 2])

    def test_compiler_collectives_type_mismatch(self):
        def function(x):
            return x + torch.ones(3)

        calls = [(value,) for value in self.mine((torch.randn(3), torch.randn(3)), (5, 6))]
        self.check(function, *calls, alone=[1, 2], together=[1, 1])


class TestGuardCollectives(CollectivesTestCase):
    """``set_enable_guard_collectives``: when the guards of one rank fail, all compile."""

    def setUpRank(self):
        super().setUpRank()
        patched = mock.patch.object(distributed, "_GUARD_PG", None)
        patched.start()
        self.addCleanup(patched.stop)
        self.addCleanup(torch.compiler.set_enable_guard_collectives, False)

    def test_guard_collective(self):
        # Only rank 1 sees another size.
        sizes = (5, 5) if self.rank == 0 else (5, 6)
        for enabled, expected in ((False, [1, 2]), (True, [2, 2])):
            with self.subTest(enabled=enabled):
                torch._dynamo.reset()
                before = torch.compiler.set_enable_guard_collectives(enabled)
                self.assertFalse(before)
                counts = self.compiles(
                    lambda x: x.sum(), *((torch.randn(size),) for size in sizes), talk=enabled
                )
                self.assertEqual(counts, expected)


if __name__ == "__main__":
    run_tests()
