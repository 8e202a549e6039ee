"""``Capture``: the graphs that were given to the compilers."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_function

from harness import DynamoTestCase
from harness.graphs import Capture, Compilers, compilers_of, nop


class CaptureTest(DynamoTestCase):
    """The captured graphs of functions that AOTAutograd compiles."""

    def compiled(self, compilers: Compilers) -> tuple[Callable[..., Any], Capture]:
        """A compiled function of one tensor, and the capture of its graphs."""
        capture = Capture()
        around = capture.around(compilers)
        function = aot_function(
            lambda x: x.sin() * 2,
            around.forward,
            around.backward,
            partition_fn=around.partitioner,
            inference_compiler=around.inference,
        )
        return function, capture

    def test_roles(self) -> None:
        """Graphs are in the order of compilation, with role, inputs and outputs; ``ran`` lists each run."""
        function, capture = self.compiled(compilers_of("nop"))
        x = torch.ones(2, requires_grad=True)
        function(x)
        self.assertEqual([graph.role for graph in capture.graphs], ["joint", "forward"])
        function(x).sum().backward()
        self.assertEqual([graph.role for graph in capture.graphs], ["joint", "forward", "backward"])
        self.assertEqual([graph.role for graph in capture.ran], ["forward", "forward", "backward"])
        forward, backward = capture.graphs[1:]
        self.assertEqual([node.name for node in forward.placeholders], ["primals_1"])
        self.assertEqual([node.name for node in forward.outputs], ["mul", "primals_1"])
        self.assertEqual(len(backward.placeholders), 2)

        function, capture = self.compiled(compilers_of("nop"))
        function(torch.ones(2))
        self.assertEqual([graph.role for graph in capture.graphs], ["inference"])

    def test_as_it_was(self) -> None:
        """A graph that its compiler changes is kept as it was before, with the metadata of its nodes."""

        def ruins(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Callable[..., Any]:
            for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
                node.target = torch.ops.aten.cos.default
            graph.recompile()
            return nop(graph, example)

        function, capture = self.compiled(compilers_of(ruins))
        self.assertEqual(function(torch.zeros(2)), torch.full((2,), 2.0))
        (graph,) = capture.graphs
        self.assertIn("aten.sin.default", graph.text)
        self.assertEqual(graph.module(torch.zeros(2)), (torch.zeros(2),))
        self.assertTrue(all("val" in node.meta for node in graph.placeholders))

    def test_graphs_within(self) -> None:
        """Nested graphs that a compiler changes, such as branches of a ``cond``, are kept as they were."""

        def ruins(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Callable[..., Any]:
            for module in graph.modules():
                assert isinstance(module, torch.fx.GraphModule)
                for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
                    node.target = torch.ops.aten.cos.default
                module.recompile()
            return nop(graph, example)

        def inner(x: torch.Tensor) -> torch.Tensor:
            chosen: torch.Tensor = torch.cond(x.max() > 1, torch.sin, torch.cos, [x])
            return chosen

        def branches(x: torch.Tensor) -> torch.Tensor:
            chosen: torch.Tensor = torch.cond(x.sum() > 3, inner, torch.neg, [x])
            return chosen

        capture = Capture()
        around = capture.around(compilers_of(ruins))
        compiled = aot_function(branches, around.forward, around.backward)
        x = torch.tensor([1.5, 2])
        self.assertEqual(compiled(x), x.cos())
        (graph,) = capture.graphs
        self.assertEqual(graph.text.count("aten.sin.default"), 1)
        self.assertEqual(graph.text.count("aten.cos.default"), 1)
        self.assertEqual(graph.module(x), (x.sin(),))

    def test_boxed(self) -> None:
        """A compiled function that takes its inputs as a list is given a list."""
        given = []

        def boxing(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Callable[..., Any]:
            def run(inputs: list[Any]) -> Any:
                given.append(type(inputs))
                return graph(*inputs)

            run._boxed_call = True  # type: ignore[attr-defined]  # how AOTAutograd is told
            return run

        function, _ = self.compiled(compilers_of(boxing))
        function(torch.ones(2))
        self.assertEqual(given, [list])

    def test_separate_compilers(self) -> None:
        """Forward, backward and inference graphs are compiled by their own compilers."""
        seen: list[str] = []

        def named(name: str) -> Callable[..., Any]:
            def compiler(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Callable[..., Any]:
                seen.append(name)
                return nop(graph, example)

            return compiler

        compilers = Compilers("three", named("forward"), named("backward"), named("inference"))
        function, _ = self.compiled(compilers)
        function(torch.ones(2, requires_grad=True)).sum().backward()
        function, _ = self.compiled(compilers)
        function(torch.ones(2))
        self.assertEqual(seen, ["forward", "backward", "inference"])


if __name__ == "__main__":
    unittest.main()
