"""Functional collectives traced by ``make_fx``: whoever uses a result waits for it first.

Each test looks at the traced graph (between a use and the collective stands a wait), runs it against a value
worked out by hand, and runs it on other data, which a constant in the graph would not follow. One more test
takes the waits out, and sees the value that is not there yet: so the waits are what makes the others right.
Tracing the plain API yields no waits at all, which is why these use ``_functional_collectives``.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch

# Tracing imports these at first use: a second a rank, unless the process that ranks are forked from has them.
import torch._dynamo
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.fx.experimental.symbolic_shapes
from torch.fx.experimental.proxy_tensor import make_fx

from harness import MultiProcessTestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, current, needs
from suites.target_device import OnTargetDevice

#: Below the harness's deadline for a test.
TIMEOUT = timedelta(seconds=60)
WAIT = torch.ops._c10d_functional.wait_tensor.default
MUL = torch.ops.aten.mul.Tensor
#: Names of the collectives before and since torch 2.13; the older ones warn there.
all_gather = getattr(funcol, "all_gather_single", None) or funcol.all_gather_tensor
reduce_scatter = getattr(funcol, "reduce_scatter_single", None) or funcol.reduce_scatter_tensor


def is_collective(node):
    """Whether a node starts a collective."""
    return getattr(node.target, "namespace", None) == "_c10d_functional" and node.target is not WAIT


def waits_before_collective(use):
    """Return how many waits stand between a use and the collective that its first argument comes from.

    None where no collective is met.
    """
    node, waits = use.args[0], 0
    while isinstance(node, torch.fx.Node) and node.args:
        if is_collective(node):
            return waits
        waits += node.target is WAIT
        node = node.args[0]
        while isinstance(node, list | tuple):
            node = node[0]
    return None


@needs(Capability.FUNCTIONAL)
class CompilerTest(OnTargetDevice, MultiProcessTestCase):
    """Two ranks, one traced program each."""

    world_size = 2
    rank_modes = ("fresh", "pooled")  # threads of a process cannot trace side by side

    def setUpRank(self):
        super().setUpRank()
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group(
            current().backend, store=store, rank=self.rank, world_size=self.world_size, timeout=TIMEOUT
        )
        self.board = dist.PrefixStore("board", store)
        self.group = dist.group.WORLD

    def given(self, rank):
        """Return the input of a rank."""
        return torch.arange(4.0).reshape(2, 2) + 10.0 * (rank + 1)

    def check(self, communicate, expected, *, waits=1):
        """Check a program: the sum of the input with itself, ``communicate``, then each result doubled.

        ``expected`` says by hand what ``communicate`` returns, given the doubled inputs of all ranks.
        """

        def program(tensor):
            result = communicate(tensor + tensor)
            return [part * 2 for part in (result if isinstance(result, list | tuple) else [result])]

        tensor = self.given(self.rank)
        traced = make_fx(program)(tensor)
        traced.graph.lint()
        traced.graph.eliminate_dead_code()
        traced.recompile()
        uses = [node for node in traced.graph.nodes if node.target is MUL]
        self.assertGreater(len(uses), 0)
        for use in uses:
            self.assertEqual(waits_before_collective(use), 1)
        self.assertEqual(sum(node.target is WAIT for node in traced.graph.nodes), waits)
        for shift in (0.0, 1.0):
            inputs = [2 * (self.given(rank) + shift) for rank in range(self.world_size)]
            by_hand = [2 * part for part in expected(inputs)]
            self.assertEqual(len(uses), len(by_hand))
            self.assertEqual(list(traced(tensor + shift)), by_hand)
            self.assertEqual([part * 1 for part in program(tensor + shift)], by_hand)

    def test_allreduce_work_wait_cpu(self):
        self.check(lambda t: funcol.all_reduce(t, "sum", self.group), lambda held: [sum(held)])

    def test_allgather_work_wait_cpu(self):
        self.check(
            lambda t: sum(all_gather(t, 0, self.group).chunk(self.world_size)), lambda held: [sum(held)]
        )

    def test_allgather_into_tensor_work_wait_cpu(self):
        self.check(lambda t: all_gather(t, 0, self.group), lambda held: [torch.cat(held)])

    def test_reduce_scatter_work_wait_cpu(self):
        self.check(
            lambda t: reduce_scatter(
                torch.cat([t + part for part in range(self.world_size)]), "sum", 0, self.group
            ),
            lambda held: [sum(held) + self.rank * self.world_size],
        )

    def test_reduce_scatter_tensor_work_wait_cpu(self):
        self.check(
            lambda t: reduce_scatter(t, "sum", 0, self.group),
            lambda held: [sum(held)[self.rank : self.rank + 1]],
        )

    def test_broadcast_work_wait_cpu(self):
        last = self.world_size - 1
        self.check(lambda t: funcol.broadcast(t, last, self.group), lambda held: [held[last]])

    def test_scatter_work_wait_cpu(self):
        # There is no functional scatter: an exchange in which only rank 0 has anything to send.
        received = [2] + [0] * (self.world_size - 1)

        def scatter(t):
            sent = torch.cat([t + part for part in range(self.world_size)])
            if self.rank != 0:
                sent = sent[:0]
            sizes = [2 if self.rank == 0 else 0] * self.world_size
            return funcol.all_to_all_single(sent, received, sizes, self.group)

        self.check(scatter, lambda held: [held[0] + self.rank])

    def test_alltoall_work_wait_cpu(self):
        def exchange(t):
            sent = torch.cat([t + 100.0 * part for part in range(self.world_size)])
            sizes = [2] * self.world_size
            return funcol.all_to_all_single(sent, sizes, sizes, self.group).chunk(self.world_size)

        self.check(exchange, lambda held: [one + 100.0 * self.rank for one in held])

    def test_nested_comm_tensor_wrapping(self):
        # To wait for what no collective has made is harmless.
        self.check(
            lambda t: funcol.all_reduce(funcol.wait_tensor(t), "sum", self.group),
            lambda held: [sum(held)],
            waits=2,
        )

    def test_consecutive_comm_work_wait_cpu(self):
        self.check(
            lambda t: funcol.all_reduce(funcol.all_reduce(t, "sum", self.group), "sum", self.group),
            lambda held: [self.world_size * sum(held)],
            waits=2,
        )

    def test_without_its_wait_a_consumer_sees_what_is_not_reduced(self):
        def program(tensor):
            return funcol.all_reduce(tensor + tensor, "sum", self.group) * 2

        tensor = torch.full((2, 2), self.rank + 1.0)
        traced = make_fx(program)(tensor)
        self.assertEqual(traced(tensor), torch.full((2, 2), 12.0))
        for node in [node for node in traced.graph.nodes if node.target is WAIT]:
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
        traced.recompile()
        # Rank 1 joins in when rank 0 has its result, which can have nothing of rank 1's.
        if self.rank == 0:
            result = traced(tensor)
            self.assertEqual(result, torch.full((2, 2), 4.0))
            self.board.set("rank 0 has read", "")
        else:
            self.board.get("rank 0 has read")
            traced(tensor)
        # The collective that nobody has waited for ends before the group does.
        dist.barrier()


if __name__ == "__main__":
    run_tests()
