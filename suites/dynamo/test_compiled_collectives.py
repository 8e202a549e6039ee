"""Collectives within compiled code: what a plain call gives back and leaves behind, and what groups can tell.

Each rank gives something else, and the results are worked out from the ranks' numbers.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._pytree import tree_map

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from harness.targets import Capability, needs
from suites.dynamo.base import DdpRanksTestCase


@needs(Capability.FUNCTIONAL)
class TestCompiledCollectives(DdpRanksTestCase):
    """Two ranks; rank r holds the numbers 10 * r + 1, 10 * r + 2, ...

    A graph that holds a process group keeps its connections open when all else has forgotten the two, so
    these ranks cannot be kept.
    """

    rank_modes = ("fresh",)

    def numbers(self, rank, count=4):
        """Return what a rank holds."""
        return torch.arange(1.0, count + 1, device=self.device_type) + 10 * rank

    def zeros(self, count):
        """Return what results go into."""
        return torch.zeros(count, device=self.device_type)

    def everyone(self, count=4):
        """Return what the ranks hold, a row each."""
        return torch.stack([self.numbers(rank, count) for rank in range(self.world_size)])

    def check_returns_none(self, call, output, expected, functional):
        """Compile ``call(output, input)``; check that it gives None, fills the output and was captured.

        ``functional`` is the functional collective that the graph has to have.
        """
        counter = self.counted("aot_eager")

        @torch.compile(backend=counter, fullgraph=True)
        def run(output, own):
            given = call(output, own * 1)
            return given, own + 1

        own = self.numbers(self.rank)
        for _ in range(2):
            given, after = run(output, own)
            self.assertEqual(given, None if torch_at_least("2.12") else expected)
            self.assertEqual(after, own + 1)
            self.assertEqual(output, expected)
            tree_map(Tensor.zero_, output)  # what the next call leaves there is its own
        self.assertEqual(counter.frame_count, 1)
        targets = [str(node.target) for node in counter.graphs[0].graph.nodes]
        self.assertEqual(
            [target for target in targets if target.startswith("_c10d_functional.")],
            [f"_c10d_functional.{functional}", "_c10d_functional.wait_tensor"],
        )

    def test_compiled_all_reduce_returns_none(self):
        def call(output, own):
            output.copy_(own)
            return dist.all_reduce(output)

        self.check_returns_none(call, self.zeros(4), self.everyone().sum(0), "all_reduce")

    def test_compiled_all_gather_into_tensor_returns_none(self):
        self.check_returns_none(
            dist.all_gather_into_tensor, self.zeros(8), self.everyone().flatten(), "all_gather_into_tensor"
        )

    def test_compiled_all_gather_base_returns_none(self):
        self.check_returns_none(
            dist._all_gather_base, self.zeros(8), self.everyone().flatten(), "all_gather_into_tensor"
        )

    def test_compiled_reduce_scatter_tensor_returns_none(self):
        self.check_returns_none(
            dist.reduce_scatter_tensor,
            self.zeros(2),
            self.everyone().sum(0).chunk(2)[self.rank],
            "reduce_scatter_tensor",
        )

    def test_compiled_reduce_scatter_base_returns_none(self):
        self.check_returns_none(
            dist._reduce_scatter_base,
            self.zeros(2),
            self.everyone().sum(0).chunk(2)[self.rank],
            "reduce_scatter_tensor",
        )

    def test_compiled_all_to_all_single_returns_none(self):
        self.check_returns_none(
            dist.all_to_all_single,
            self.zeros(4),
            self.everyone().reshape(2, 2, 2)[:, self.rank].flatten(),
            "all_to_all_single",
        )

    def test_compiled_all_gather_returns_none(self):
        self.check_returns_none(
            dist.all_gather, [self.zeros(4), self.zeros(4)], list(self.everyone()), "all_gather_into_tensor"
        )

    def test_get_pg_attr(self):
        # Whether this rank is in a group is known while dynamo traces: the graph holds one branch only.
        counter = self.counted()

        def run(x, group):
            if dist.distributed_c10d._rank_not_in_group(group):
                return x + 1
            return x - 1

        compiled = torch.compile(run, backend=counter, fullgraph=True)
        x = self.numbers(self.rank)
        self.assertEqual(compiled(x, dist.group.WORLD), x - 1)
        self.assertEqual(compiled(x, dist.GroupMember.NON_GROUP_MEMBER), x + 1)
        self.assertEqual(counter.frame_count, 2)


if __name__ == "__main__":
    run_tests()
