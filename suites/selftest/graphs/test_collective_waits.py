"""What reads a collective's result too early is found in a graph, put there, and put right."""

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
from harness.graphs.collective_waits import collectives, unwaited, wait_for_works, without_waits
from harness.launch import local


def traced(program: Callable[..., Any], *inputs: torch.Tensor) -> torch.fx.GraphModule:
    """The program's graph, traced on ones."""
    module: torch.fx.GraphModule = make_fx(program)(*(inputs or (torch.ones(4),)))
    return module


def reduced_twice(tensor: torch.Tensor) -> list[torch.Tensor]:
    """A sum and two that go together, each of them used."""
    group: Any = dist.group.WORLD
    alone = funcol.all_reduce(tensor, "sum", group)
    return [one * 2 for one in (alone, *funcol.all_reduce_coalesced([tensor, tensor + 1], "sum", group))]


def in_place(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Plain collectives: with results beside their Work, and with a Work alone."""
    own, parts, both = tensor.clone(), [torch.empty(4), torch.empty(4)], torch.empty(4)
    dist.broadcast(own, 0)
    dist.all_gather(parts, own)
    dist.all_to_all_single(both, tensor)
    return [one * 2 for one in (own, *parts, both)]


class GraphTest(unittest.TestCase):
    """Graphs of collectives on a group that has no peers: nothing here depends on what they compute."""

    def setUp(self) -> None:
        local.init_group(2)
        self.addCleanup(dist.destroy_process_group)

    def check(self, module: torch.fx.GraphModule, *found: tuple[str, str]) -> None:
        """Exactly these (collective, reader) are found, by their names."""
        self.assertEqual([(one.collective.name, one.reader.name) for one in unwaited(module.graph)], [*found])


class UnwaitedTest(GraphTest):
    """What ``unwaited`` finds."""

    def test_functional(self) -> None:
        """Nothing in a graph as ``make_fx`` makes it, whatever it traces with."""
        for mode in ("real", "fake", "symbolic"):
            module = make_fx(reduced_twice, tracing_mode=mode)(torch.ones(4))
            self.check(module)
            self.assertEqual(
                [node.name for node in collectives(module.graph)], ["all_reduce", "all_reduce_coalesced"]
            )
            self.assertEqual(len(collective_waits.waits(module.graph)), 3)

    def test_dynamo(self) -> None:
        """Dynamo's graphs call operators without an overload."""
        seen: list[torch.fx.GraphModule] = []

        def backend(module: torch.fx.GraphModule, _: object) -> Any:
            seen.append(module)
            return module

        torch.compile(reduced_twice, backend=backend, fullgraph=True)(torch.ones(4))
        self.check(seen[0])
        self.assertEqual(len(collectives(seen[0].graph)), 2)
        self.check(
            without_waits(seen[0]),
            ("tensor", "mul"),
            ("tensor", "output"),
            ("all_reduce_coalesced", "mul_1"),
            ("all_reduce_coalesced", "output"),
            ("all_reduce_coalesced", "mul_2"),
        )

    def test_wait_after_reader(self) -> None:
        """A wait that comes after the use is too late."""
        module = traced(reduced_twice)
        nodes = {node.name: node for node in module.graph.nodes}
        nodes["mul"].args = (nodes["all_reduce"], 2)
        nodes["mul"].append(nodes["wait_tensor"])
        self.check(module, ("all_reduce", "mul"))

    def test_reader_after_wait(self) -> None:
        """A wait fills the collective's own result, which may be read from then on."""
        module = traced(reduced_twice)
        nodes = {node.name: node for node in module.graph.nodes}
        nodes["mul"].args = (nodes["all_reduce"], 2)
        self.check(module)

    def test_wait_for_another(self) -> None:
        """In a list, each result needs a wait of its own."""
        module = traced(reduced_twice)
        nodes = {node.name: node for node in module.graph.nodes}
        nodes["wait_tensor_2"].args = (nodes["getitem"],)
        nodes["mul_2"].args = (nodes["getitem_1"], 2)
        self.check(module, ("all_reduce_coalesced", "mul_2"))

    def test_returned(self) -> None:
        """What a graph returns is read."""
        op = torch.ops._c10d_functional.all_reduce
        module = make_fx(lambda t: op(t, "sum", "0"), tracing_mode="fake")(torch.ones(4))
        self.check(module, ("all_reduce", "output"))

    def test_plain(self) -> None:
        """All results of plain collectives; reading by the name of the tensor that was given."""
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
        """Other operators and methods, an item of something else."""
        self.check(traced(lambda t: t.chunk(2)[0].sum()))
        barrier = traced(lambda t: (dist.barrier(), t + 1)[1])
        self.assertEqual(len(collectives(barrier.graph)), 1)
        self.check(barrier)


class WithoutWaitsTest(GraphTest):
    """What ``without_waits`` makes."""

    def test_results(self) -> None:
        """The module's own results, and what is pending; the module itself stays as it was."""
        module = traced(reduced_twice)
        broken = without_waits(module)
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
        """Comes flat."""
        op = funcol.all_reduce
        module = make_fx(lambda one, many: {"sum": op(one, "sum", dist.group.WORLD), "rest": many})(
            torch.ones(2), [torch.ones(1)]
        )
        returned, pending = without_waits(module)(torch.zeros(2), [torch.zeros(1)])
        self.assertEqual(([one.shape for one in returned], len(pending)), ([(2,), (1,)], 1))
        torch.ops._c10d_functional.wait_tensor(pending[0])

    def test_nothing_to_take_out(self) -> None:
        """A graph that never waits is refused."""
        with self.assertRaisesRegex(UsageError, "no wait_tensor"):
            without_waits(traced(lambda t: t + 1))


class WaitForWorksTest(GraphTest):
    """What ``wait_for_works`` adds."""

    def test_plain(self) -> None:
        """A wait behind each plain collective, once."""
        module = traced(in_place)
        self.assertEqual(wait_for_works(module), 3)
        self.check(module)
        self.assertEqual(wait_for_works(module), 0)
        self.assertEqual(module.code.count(".wait()"), 3)
        self.assertEqual([one.shape for one in module(torch.ones(4))], [(4,)] * 4)

    def test_functional(self) -> None:
        """Has its own."""
        module = traced(reduced_twice)
        self.assertEqual(wait_for_works(module), 0)


if __name__ == "__main__":
    unittest.main()
