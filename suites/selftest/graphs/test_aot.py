"""``verify_aot`` accepts correctly compiled functions, returns their graphs, and refuses bad arguments."""

from __future__ import annotations

import re
import unittest
from collections.abc import Sequence
from typing import Any
from unittest import mock

import torch

from harness.graphs import AotFunction, nop, verify_aot
from suites.selftest.graphs.verifying import Function, VerifyTestCase, inputs, products, writes


class RightTest(VerifyTestCase):
    """Functions that are compiled correctly."""

    def test_graphs(self) -> None:
        """The result has the forward, backward and joint graph of the last round, as modules and as text."""
        result = verify_aot(writes, inputs(), requires_grad=True, test_mutation=True)
        self.assertExpectedInline(
            result.forward_text,
            """\
forward(primals_1, primals_2)
  clone = aten.clone.default(primals_1)
  mul = aten.mul.Tensor(clone, 2)
  mul_1 = aten.mul.Tensor(mul, primals_2)
  t = aten.t.default(mul_1)
  view_1 = aten.view.default(mul, [-1])
  return (mul, view_1, mul_1, t, primals_2, mul)""",
        )
        self.assertExpectedInline(
            result.backward_text,
            """\
backward(primals_2, mul, tangents_1, tangents_2)
  mul_2 = aten.mul.Tensor(tangents_2, mul)
  mul_3 = aten.mul.Tensor(tangents_2, primals_2)
  add = aten.add.Tensor(tangents_1, mul_3)
  mul_4 = aten.mul.Tensor(add, 2)
  return (mul_4, mul_2)""",
        )
        joint = result.graph("joint")
        assert joint is not None
        self.assertTrue(joint.text.startswith("joint(primals_1, primals_2, tangents_1"))
        for module in (result.forward, result.backward, joint.module):
            self.assertIsInstance(module, torch.fx.GraphModule)

    def test_inference(self) -> None:
        """Without a backward there is one graph, which is also the ``forward``."""
        result = verify_aot(writes, inputs(), keep_input_mutations=True)
        self.assertTrue(result.forward_text.startswith("inference("))
        self.assertIn("aten.copy_.default(arg0_1, mul)", result.forward_text)
        self.assertIsNone(result.backward)
        self.assertEqual(result.backward_text, "")

    def test_inputs_are_left_alone(self) -> None:
        """The given inputs are not changed by a function that writes to its arguments."""
        given = inputs()
        verify_aot(writes, given)
        self.assertEqual(given, inputs())

    def test_backends(self) -> None:
        """A backend is a name, one compiler, or a pair, which compile the forward and the backward."""
        seen: list[str] = []

        def forward(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Function:
            seen.append("forward")
            return nop(graph, example)

        def backward(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Function:
            seen.append("backward")
            return nop(graph, example)

        for backend in ("nop", "aot_eager", nop, (forward, backward)):
            for dynamic in (False, True):
                verify_aot(
                    writes,
                    inputs(),
                    requires_grad=True,
                    test_mutation=True,
                    backend=backend,
                    dynamic=dynamic,
                    keep_input_mutations=True,
                )
        self.assertEqual(seen, ["forward", "backward"] * 2)

    def test_inductor(self) -> None:
        """A function compiled by inductor is verified, too."""
        result = verify_aot(writes, inputs(), requires_grad=True, backend="inductor", test_mutation=True)
        self.assertEqual(result.returned[1].shape, (2, 2))

    def test_random_numbers(self) -> None:
        """Each backend draws the random numbers that eager draws, with a backward and without."""

        def drops(a: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.dropout(a, 0.5) * torch.rand(2, 2)

        for backend in ("aot_eager", "inductor"):
            for requires_grad in (False, True):
                verify_aot(drops, inputs()[:1], backend=backend, requires_grad=requires_grad)

    def test_dynamic(self) -> None:
        """With ``dynamic`` the sizes in the graph are symbols."""
        result = verify_aot(lambda a: a.expand(a.shape[0], a.shape[0]) + 1, [torch.ones(3)], dynamic=True)
        self.assertIn("aten.sym_size.int(arg", result.forward_text)

    def test_containers_and_modules(self) -> None:
        """Arguments and outputs may be dictionaries; a module's parameters and buffers are not changed."""
        verify_aot(products, [torch.ones(2, requires_grad=True), {"x": torch.ones(2)}])
        module = torch.nn.BatchNorm1d(3)
        verify_aot(module, [torch.randn(4, 3)])
        self.assertEqual(module.num_batches_tracked, 0)

    def test_arguments_of_a_module(self) -> None:
        """A module's parameter that is also its argument is its own parameter, in eager and compiled."""
        module = torch.nn.Linear(2, 2)
        seen = []

        def asked(self: torch.nn.Linear, weight: torch.Tensor) -> torch.Tensor:
            if type(weight) is torch.nn.Parameter:  # not as it is traced
                seen.append(weight is self.weight)
            return weight + self.weight

        with mock.patch.object(torch.nn.Linear, "forward", asked):
            verify_aot(module, [module.weight], requires_grad=False)
        self.assertEqual(set(seen), {True})

    def test_numbers(self) -> None:
        """Outputs that are not tensors are compared by value, and nan equals nan."""
        result = verify_aot(lambda a: (a + 1, 3, float("nan"), None), [torch.ones(2)])
        self.assertEqual(result.returned[1], 3)

    def test_leaf_views(self) -> None:
        """An argument that is both a leaf and a view may be written to."""
        verify_aot(
            lambda a: a.mul_(2), [torch.arange(4.0).reshape(2, 2).requires_grad_()], test_mutation=True
        )

    def test_callable_inputs(self) -> None:
        """A callable makes the inputs of each call anew, with the leaves that gradients are read from."""
        made = []

        def make() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
            base = torch.ones(4, requires_grad=True)
            made.append(base)
            x = base * 2
            return [base], [x.view(2, 2), x.view(2, 2)]

        def sums(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            a.mul_(2)
            return a + b

        verify_aot(sums, make, test_mutation=True, keep_input_mutations=True)
        self.assertEqual(len(made), 3)


class UsageTest(VerifyTestCase):
    """Arguments that ``verify_aot`` refuses with a UsageError."""

    def test_options(self) -> None:
        """An option of a wrong kind is refused, and the message says what to give."""
        for name, value in (
            ("raises", 3),
            ("raises", (ValueError, TypeError)),
            ("raises_regex", "seven"),
            ("front_end", "dynamo"),
            ("front_end", AotFunction),
            ("decompositions", [torch.sin]),
            ("partitioner", "min_cut"),
        ):
            with self.subTest(name, value=value):
                self.assertRefused(
                    f"^{name}={re.escape(repr(value))}: give ", writes, inputs(), **{name: value}
                )
        for regex in ("(", 3):
            self.assertRefused(
                "give a regular expres", writes, inputs(), raises=ValueError, raises_regex=regex
            )

    def test_wrong_types(self) -> None:
        """A function that is not callable, and a compiler that returns nothing, are refused."""
        self.assertRefused("function=3: give a callable or a module", 3, inputs())
        self.assertRefused(
            "inference compiler returned a NoneType", writes, inputs(), backend=lambda graph, example: None
        )


if __name__ == "__main__":
    unittest.main()
