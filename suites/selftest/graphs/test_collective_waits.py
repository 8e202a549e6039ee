"""Reads of a collective's result before its wait: found in graphs, planted, and repaired."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.fx.experimental.proxy_tensor import make_fx

from harness import UsageError
from harness.graphs import collective_waits
from harness.graphs.collective_waits import collectives, insert_waits, strip_waits, unwaited
from harness.ranks.local import rank as local


def traced(program: Callable[..., Any], *inputs: torch.Tensor) -> torch.fx.GraphModule:
    """The program's graph, traced on ones."""
    module: torch.fx.GraphModule = make_fx(program)(*(inputs or (torch.ones(4),)))
    return module


def reduced_twice(tensor: torch.Tensor) -> list[torch.Tensor]:
    """A single all-reduce and a coalesced one of two tensors, with a use of each result."""
    group: Any = dist.group.WORLD
    alone = funcol.all_reduce(tensor, "sum", group)
    return [one * 2 for one in (alone, *funcol.all_reduce_coalesced([tensor, tensor + 1], "sum", group))]


def in_place(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Plain collectives: two with a result beside their Work, and one with a Work alone."""
    own, parts, both = tensor.clone(), [torch.empty(4), torch.empty(4)], torch.empty(4)
    dist.broadcast(own, 0)
    dist.all_gather(parts, own)
    dist.all_to_all_single(both, tensor)
    return [one * 2 for one in (own, *parts, both)]


class GraphTest(unittest.TestCase):
    """Graphs of collectives on a group without peers: only the graphs matter here, not their results."""

    def setUp(self) -> None:
        local.init_group(2)
        self.addCleanup(dist.destroy_process_group)

    def check(self, module: torch.fx.GraphModule, *found: tuple[str, str]) -> None:
        """Require exactly these pairs of names, (collective, reader), from ``unwaited``."""
        self.assertEqual([(one.collective.name, one.reader.name) for one in unwaited(module.graph)], [*found])


class UnwaitedTest(GraphTest):
    """``unwaited``, ``collectives`` and ``waits``."""

    def test_functional(self) -> None:
        """Functional collectives traced by ``make_fx`` are not read too early, in any tracing mode."""
        for mode in ("real", "fake", "symbolic"):
            module = make_fx(reduced_twice, tracing_mode=mode)(torch.ones(4))
            self.check(module)
            self.assertEqual(
                [node.name for node in collectives(module.graph)], ["all_reduce", "all_reduce_coalesced"]
            )
            self.assertEqual(len(collective_waits.waits(module.graph)), 3)

    def test_dynamo(self) -> None:
        """Graphs of dynamo, which call operators without an overload, are read as well."""
        seen: list[torch.fx.GraphModule] = []

        def backend(module: torch.fx.GraphModule, _: object) -> Any:
            seen.append(module)
            return module

        torch.compile(reduced_twice, backend=backend, fullgraph=True)(torch.ones(4))
        self.check(seen[0])
        self.assertEqual(len(collectives(seen[0].graph)), 2)
        self.check(
            strip_waits(seen[0]),
            ("tensor", "mul"),
            ("tensor", "output"),
            ("all_reduce_coalesced", "mul_1"),
            ("all_reduce_coalesced", "output"),
            ("all_reduce_coalesced", "mul_2"),
        )

    def test_wait_after_reader(self) -> None:
        """A wait that comes after the use of the result is too late."""
        module = traced(reduced_twice)
        nodes = {node.name: node for node in module.graph.nodes}
        nodes["mul"].args = (nodes["all_reduce"], 2)
        nodes["mul"].append(nodes["wait_tensor"])
        self.check(module, ("all_reduce", "mul"))

    def test_reader_after_wait(self) -> None:
        """After a wait the collective's own node may be used, as well as the wait's."""
        module = traced(reduced_twice)
        nodes = {node.name: node for node in module.graph.nodes}
        nodes["mul"].args = (nodes["all_reduce"], 2)
        self.check(module)

    def test_wait_for_another(self) -> None:
        """Each result of a coalesced collective needs a wait of its own."""
        module = traced(reduced_twice)
        nodes = {node.name: node for node in module.graph.nodes}
        nodes["wait_tensor_2"].args = (nodes["getitem"],)
        nodes["mul_2"].args = (nodes["getitem_1"], 2)
        self.check(module, ("all_reduce_coalesced", "mul_2"))

    def test_returned(self) -> None:
        """Returning an unwaited result from the graph is a read that comes too early."""
        op = torch.ops._c10d_functional.all_reduce
        module = make_fx(lambda t: op(t, "sum", "0"), tracing_mode="fake")(torch.ones(4))
        self.check(module, ("all_reduce", "output"))

    def test_plain(self) -> None:
        """Reads of all results of plain collectives are found, also through a tensor given to be filled."""
        module = traced(in_place)
        self.assertEqual(
            [node.name for node in collectives(module.graph)], ["broadcast_", "allgather_", "alltoall_base_"]
        )
        self.check(
            module,
            ("broadcast_", "allgather_"),
            ("broadcast_", "mul"),
            ("allgather_", "mul_1"),
            ("allgather_", "mul_2"),
            ("alltoall_base_", "mul_3"),
        )

    def test_what_is_no_collective(self) -> None:
        """Other operators have nothing to wait for, and a barrier has no result to read."""
        self.check(traced(lambda t: t.chunk(2)[0].sum()))
        barrier = traced(lambda t: (dist.barrier(), t + 1)[1])
        self.assertEqual(len(collectives(barrier.graph)), 1)
        self.check(barrier)


class WithoutWaitsTest(GraphTest):
    """The function ``strip_waits``, on traced graphs."""

    def test_results(self) -> None:
        """The copy returns the module's results and the unwaited ones; the module itself stays as it was."""
        module = traced(reduced_twice)
        broken = strip_waits(module)
        self.check(
            broken,
            ("all_reduce", "mul"),
            ("all_reduce", "output"),
            ("all_reduce_coalesced", "mul_1"),
            ("all_reduce_coalesced", "output"),
            ("all_reduce_coalesced", "mul_2"),
        )
        self.check(module)
        returned, pending = broken(torch.ones(4))
        self.assertEqual(([one.shape for one in returned], len(pending)), ([(4,)] * 3, 3))
        for one in pending:
            torch.ops._c10d_functional.wait_tensor(one)
        self.assertEqual(torch._C._distributed_c10d._get_work_registry_size(), 0)

    def test_structured_output(self) -> None:
        """A nested output is returned as a flat list."""
        op = funcol.all_reduce
        module = make_fx(lambda one, many: {"sum": op(one, "sum", dist.group.WORLD), "rest": many})(
            torch.ones(2), [torch.ones(1)]
        )
        returned, pending = strip_waits(module)(torch.zeros(2), [torch.zeros(1)])
        self.assertEqual(([one.shape for one in returned], len(pending)), ([(2,), (1,)], 1))
        torch.ops._c10d_functional.wait_tensor(pending[0])

    def test_nothing_to_take_out(self) -> None:
        """A graph without a wait is refused."""
        with self.assertRaisesRegex(UsageError, "no wait_tensor"):
            strip_waits(traced(lambda t: t + 1))


class WaitForWorksTest(GraphTest):
    """The function ``insert_waits``, on traced graphs."""

    def test_plain(self) -> None:
        """A wait is added behind each plain collective that has none, so that a second call adds nothing."""
        module = traced(in_place)
        self.assertEqual(insert_waits(module), 3)
        self.check(module)
        self.assertEqual(insert_waits(module), 0)
        self.assertEqual(module.code.count(".wait()"), 3)
        self.assertEqual([one.shape for one in module(torch.ones(4))], [(4,)] * 4)

    def test_functional(self) -> None:
        """Functional collectives get no further wait."""
        module = traced(reduced_twice)
        self.assertEqual(insert_waits(module), 0)


if __name__ == "__main__":
    unittest.main()
