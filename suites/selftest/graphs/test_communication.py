"""The collectives of a graph: names, payloads, groups and waits, their counts, and their table."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from harness import UsageError
from harness.graphs import (
    collectives_of,
    communication_bytes,
    count_collectives,
    strip_waits,
    summarize_collectives,
)
from harness.ranks.local import rank


def traced(program: Callable[..., Any], *inputs: torch.Tensor, mode: str = "fake") -> GraphModule:
    """Returns the graph of a program."""
    module: GraphModule = make_fx(program, tracing_mode=mode)(*(inputs or (torch.ones(4, 3),)))
    return module


def functional(tensor: torch.Tensor) -> Any:
    """Functional collectives of several kinds, on a group of two."""
    group: Any = dist.group.WORLD
    total = funcol.all_reduce(tensor, "sum", group)
    whole = torch.ops._c10d_functional.all_gather_into_tensor(total, 2, group.group_name)
    whole = torch.ops._c10d_functional.wait_tensor(whole)
    part = torch.ops._c10d_functional.reduce_scatter_tensor(whole.double(), "avg", 2, group.group_name)
    part = torch.ops._c10d_functional.wait_tensor(part)
    several = funcol.all_reduce_coalesced([total, part], "max", group)
    moved = funcol.all_to_all_single(tensor, None, None, group)
    return several, moved, funcol.broadcast(moved, 0, group)


def plain(tensor: torch.Tensor) -> Any:
    """Plain collectives, among them a barrier, which has no data."""
    own, parts = tensor.clone(), [torch.empty_like(tensor) for _ in range(2)]
    dist.all_reduce(own)
    dist.broadcast(own, 0)
    dist.barrier()
    dist.all_gather(parts, own)
    dist.scatter(own, parts if dist.get_rank() == 0 else None, 0)
    return own


class CollectivesTest(unittest.TestCase):
    """Graphs traced on a group of two that has no peers."""

    def setUp(self) -> None:
        rank.init_group(2)
        self.addCleanup(dist.destroy_process_group)

    def test_functional(self) -> None:
        """Each functional collective has its name, payload, reduction and group, and is waited for."""
        graph = traced(functional)
        found = [(each.name, each.payload_bytes, each.reduction) for each in collectives_of(graph)]
        rows = 4 * 3
        expected = [
            ("all_reduce", 4 * rows, "sum"),
            ("all_gather_into_tensor", 2 * 4 * rows, ""),
            ("reduce_scatter_tensor", 2 * 8 * rows, "avg"),
            ("all_reduce_coalesced", (4 + 8) * rows, "max"),
            ("all_to_all_single", 4 * rows, ""),
            ("broadcast", 4 * rows, ""),
        ]
        self.assertEqual(found, expected)
        self.assertTrue(all(each.waited for each in collectives_of(graph)))
        self.assertEqual({each.group for each in collectives_of(graph)}, {dist.group.WORLD.group_name})
        self.assertEqual(communication_bytes(graph), sum(size for _, size, _ in expected))
        self.assertEqual(count_collectives(graph), {name: 1 for name, *_ in expected})

    def test_plain(self) -> None:
        """Each plain collective has the name of its function in ``torch.distributed``, and its payload."""
        graph = traced(plain)
        found = [(each.name, each.payload_bytes) for each in collectives_of(graph)]
        rows = 4 * 4 * 3
        names = [
            ("all_reduce", rows),
            ("broadcast", rows),
            ("barrier", 0),
            ("all_gather", 2 * rows),
            ("scatter", 2 * rows),
        ]
        self.assertEqual(found, names)
        self.assertEqual({each.group for each in collectives_of(graph)}, {dist.group.WORLD.group_name})

    def test_shapes_and_dtypes(self) -> None:
        """A coalesced collective has the shapes and dtypes of all its tensors."""
        several = next(each for each in collectives_of(traced(functional)) if "coalesced" in each.name)
        self.assertEqual(several.shapes, ((4, 3), (4, 3)))
        self.assertEqual(several.dtypes, (torch.float32, torch.float64))

    def test_waits_taken_out(self) -> None:
        """A collective whose result is read too early is marked in its value and in the table."""
        graph = traced(lambda tensor: funcol.all_reduce(tensor, "sum", dist.group.WORLD) * 2)
        self.assertEqual([each.waited for each in collectives_of(graph)], [True])
        broken = strip_waits(graph)
        self.assertEqual([each.waited for each in collectives_of(broken)], [False])
        self.assertIn("NO", summarize_collectives(broken))

    def test_graph_or_its_module(self) -> None:
        """A graph and its module give the same collectives."""
        module = traced(functional)
        self.assertEqual(collectives_of(module.graph), collectives_of(module))
        self.assertEqual(count_collectives(module.graph), count_collectives(module))

    def test_nested_modules(self) -> None:
        """The collectives of nested graph modules count, if the module is given and not its graph alone."""
        inner = traced(lambda tensor: funcol.all_reduce(tensor, "sum", dist.group.WORLD))
        outer = torch.fx.Graph()
        given = outer.placeholder("given")
        outer.output(outer.call_module("inner", (given,)))
        module = GraphModule({"inner": inner}, outer)
        self.assertEqual(count_collectives(module), {"all_reduce": 1})
        self.assertEqual(communication_bytes(module), 4 * 4 * 3)
        self.assertEqual(count_collectives(module.graph), {}, "a graph alone knows nothing of modules")

    def test_summary(self) -> None:
        """The table has one line per collective, and a last line with the counts and the total."""

        def twice(tensor: torch.Tensor) -> torch.Tensor:
            group: Any = dist.group.WORLD
            return funcol.broadcast(funcol.all_reduce(tensor, "sum", group), 0, group)

        name = dist.group.WORLD.group_name
        self.assertEqual(
            summarize_collectives(traced(twice)).splitlines(),
            [
                "collective  group  reduction  dtype    shapes  bytes  waited",
                f"all_reduce  {name:5}  sum        float32  [4, 3]  48     yes",
                f"broadcast   {name:5}  -          float32  [4, 3]  48     yes",
                "1 all_reduce, 1 broadcast: 96 bytes",
            ],
        )

    def test_none(self) -> None:
        """A graph without collectives has a table that says so."""
        graph = traced(lambda tensor: tensor * 2)
        self.assertEqual(collectives_of(graph), ())
        self.assertEqual(communication_bytes(graph), 0)
        self.assertEqual(summarize_collectives(graph).splitlines()[-1], "no collectives: 0 bytes")

    def test_refused(self) -> None:
        """A collective of unknown size, and what is not a graph, raise a UsageError."""
        symbolic = traced(lambda t: funcol.all_reduce(t * 2, "sum", dist.group.WORLD), mode="symbolic")
        self.assertEqual(count_collectives(symbolic), {"all_reduce": 1})
        with self.assertRaisesRegex(UsageError, "mul has a symbolic shape: trace with static ones"):
            communication_bytes(symbolic)
        graph = traced(lambda tensor: funcol.all_reduce(tensor * 2, "sum", dist.group.WORLD))
        del next(node for node in graph.graph.nodes if node.name == "mul").meta["val"]
        with self.assertRaisesRegex(UsageError, r"all_reduce: mul has no meta\['val'\]"):
            collectives_of(graph)
        with self.assertRaisesRegex(UsageError, "counted in a torch.fx Graph or GraphModule, not in 3"):
            count_collectives(3)


if __name__ == "__main__":
    unittest.main()
