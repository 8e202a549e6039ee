"""Tests how a traced graph is transformed before it runs, and which transformed graphs are refused."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from harness.errors import UsageError
from harness.graphs.train_step import Override, compile
from harness.graphs.train_step.transformation import prepare
from suites.selftest.graphs.train_step.recorded_override import Recorded, Transform, relu_to_tanh
from suites.selftest.graphs.train_step.step_test_case import StepTestCase, compiled_of, sum_step


def doubled_placeholders(gm: GraphModule, flat_state: list[Tensor]) -> GraphModule:
    """A transformation that adds a new last entry of the state, and adds it to the loss in the graph."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    with gm.graph.inserting_after(placeholders[len(flat_state) - 1]):
        added = gm.graph.placeholder("added")
    flat_state.append(torch.tensor(100.0))
    output = gm.graph.output_node()
    with gm.graph.inserting_before(output):
        total = gm.graph.call_function(torch.add, (output.args[0][0], added))
    output.args = ([total],)
    return gm


class PrepareTest(unittest.TestCase):
    """The function ``prepare``, on traced graphs."""

    def test_removes_what_profilers_read(self) -> None:
        """The nodes of a profiler's range are removed, and the graph computes the same without them."""

        def profiled(x: Tensor) -> Tensor:
            with torch.profiler.record_function("step"):
                return x + 1

        traced = make_fx(profiled)(torch.zeros(2))
        ranges = [node for node in traced.graph.nodes if "record_function" in str(node.target)]
        self.assertEqual(len(ranges), 2, "an entry and an exit")
        gm = prepare(traced, None)
        self.assertEqual([node.op for node in gm.graph.nodes], ["placeholder", "call_function", "output"])
        self.assertEqual(gm(torch.ones(2)).tolist(), [2, 2])


class TransformTest(StepTestCase):
    """Overrides and ``gm_transformation`` change the graph that runs."""

    def run_with(self, *overrides: Override, **options: Any) -> tuple[Any, Any]:
        """Runs a step of a small module once; its result and its ``CompiledStep``."""
        module, optimizer, x = self.linear()
        step = compile(overrides, **options)(sum_step)
        return step(module, optimizer, x), compiled_of(step)

    def refused(self, words: str, *overrides: Override, **options: Any) -> None:
        with self.assertRaisesRegex(UsageError, words) as caught:
            self.run_with(*overrides, **options)
        self.assertNotIn("\n", str(caught.exception))

    def test_asked_once_a_module(self) -> None:
        override = Recorded(relu_to_tanh)
        module = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        compiled = self.same_as_eager(
            nn.Sequential(module, nn.Linear(3, 2)),
            inputs=[[torch.randn(4, 3)]],
            module_override=[Recorded()],
        )
        self.assertEqual(len(compiled.graphs), 1)
        step = compile([override])(sum_step)
        _, optimizer, _ = self.linear()
        optimizer.param_groups[0]["params"] = list(module.parameters())
        for rows in (4, 4, 2):
            step(module, optimizer, torch.randn(rows, 3))
        self.assertEqual(override.asked, ["0", "1"])
        self.assertEqual(len(override.graphs), 2, "each graph is transformed, once")

    def test_in_order_and_before_gm_transformation(self) -> None:
        order: list[str] = []

        def note(name: str) -> Transform:
            def transform(gm: GraphModule, flat_state: list[Tensor]) -> GraphModule:
                order.append(f"{name} {len(flat_state)}")
                return gm

            return transform

        def last(gm: GraphModule) -> GraphModule:
            order.append("last")
            return gm

        overrides = [Recorded(transform=note("first")), Recorded(transform=note("second"))]
        self.run_with(*overrides, gm_transformation=last)
        self.assertEqual(order, ["first 2", "second 2", "last"])

    def test_changed_graph_is_what_runs(self) -> None:
        def negate(gm: GraphModule, *_: Any) -> GraphModule:
            output = gm.graph.output_node()
            with gm.graph.inserting_before(output):
                output.args = ([gm.graph.call_function(torch.neg, (output.args[0][0],))],)
            return gm

        expected, _ = self.run_with()
        self.assertEqual(self.run_with(Recorded(transform=negate))[0], -expected)
        self.assertEqual(self.run_with(gm_transformation=negate)[0], -expected)

    def test_another_graph(self) -> None:
        def other(gm: GraphModule, *_: Any) -> GraphModule:
            graph = torch.fx.Graph()
            for node in gm.graph.find_nodes(op="placeholder"):
                graph.placeholder(node.name)
            graph.output([graph.call_function(torch.full, ([], 7.0))])
            return GraphModule({}, graph)

        self.assertEqual(self.run_with(Recorded(transform=other))[0], torch.tensor(7.0))

    def test_state_that_is_added(self) -> None:
        expected, _ = self.run_with()
        found, compiled = self.run_with(Recorded(transform=doubled_placeholders))
        self.assertEqual(found, expected + 100)
        self.assertEqual(len(compiled.flat_state), 3)

    def test_state_that_is_dropped(self) -> None:
        def without_bias(gm: GraphModule, flat_state: list[Tensor]) -> GraphModule:
            bias = gm.graph.find_nodes(op="placeholder")[1]
            with gm.graph.inserting_after(bias):
                bias.replace_all_uses_with(gm.graph.call_function(torch.zeros, (2,)))
            gm.graph.erase_node(bias)
            del flat_state[1]
            return gm

        module, optimizer, x = self.linear()
        before = module.weight.clone(), module.bias.clone()
        step = compile([Recorded(transform=without_bias)])(sum_step)
        for _ in range(2):
            step(module, optimizer, x)
        self.assertEqual(module.bias, before[1])
        self.assertEqual(module.weight, before[0] - 0.2 * x.sum(dim=0))
        self.assertEqual([id(each) for each in compiled_of(step).flat_state], [id(module.weight)])

    def test_what_is_no_graph_module(self) -> None:
        self.refused(
            "Recorded.transform returned a NoneType", Recorded(transform=lambda gm, flat_state: None)
        )
        self.refused("gm_transformation returned a function", gm_transformation=lambda gm: lambda *a: a)

    def test_broken_graph(self) -> None:
        def backwards(gm: GraphModule, flat_state: list[Tensor]) -> GraphModule:
            first = next(node for node in gm.graph.nodes if node.op == "call_function")
            gm.graph.output_node().prev.append(first)
            return gm

        self.refused(
            "Recorded.transform returned a broken graph: Argument 't'", Recorded(transform=backwards)
        )

    def test_placeholders_out_of_step(self) -> None:
        def add(gm: GraphModule, flat_state: list[Tensor]) -> GraphModule:
            flat_state.append(torch.ones(1))
            return gm

        words = "Recorded.transform returned a graph of 4 placeholders for 5 inputs: keep flat_state and"
        self.refused(words, Recorded(transform=add))

        def drop(gm: GraphModule) -> GraphModule:
            gm.graph.erase_node(gm.graph.find_nodes(op="placeholder")[-1])
            return gm

        with self.assertRaisesRegex(RuntimeError, "users"):  # torch's own: it is used
            self.run_with(gm_transformation=drop)

    def test_output_out_of_step(self) -> None:
        def silent(gm: GraphModule) -> GraphModule:
            gm.graph.output_node().args = ([],)
            return gm

        self.refused("returns 0 values after its transformations, and the step 1", gm_transformation=silent)


if __name__ == "__main__":
    unittest.main()
