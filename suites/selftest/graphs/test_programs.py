"""``ViewProgram``: its source, its verification, and the reduction of a program that fails."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Sequence
from typing import Any

import torch

from harness import DynamoTestCase, UsageError
from harness.graphs import Compilers, ViewProgram, nop


def loses_sines(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Callable[..., Any]:
    """A faulty compiler that replaces the sine of a value by the value."""
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
        node.replace_all_uses_with(node.args[0])
    graph.recompile()
    return nop(graph, example)


PROGRAM = ViewProgram(
    setup=("x = torch.arange(1.0, 5).requires_grad_()", "y = x * 1"),
    leaves=("x",),
    arguments=("y",),
    parameters=("a",),
    body=("t0 = a * 3", "t1 = a[1:]", "t1.mul_(2)", "t2 = t0.sin()", "t3 = t2 + 1"),
    outputs=("t3", "t1"),
)


class ViewProgramTest(DynamoTestCase):
    """A program of five statements."""

    def test_source(self) -> None:
        """The source defines ``f`` and ``inputs`` with the program's lines."""
        self.assertExpectedInline(
            PROGRAM.source,
            """\
def f(a):
    t0 = a * 3
    t1 = a[1:]
    t1.mul_(2)
    t2 = t0.sin()
    t3 = t2 + 1
    return (t3, t1)

def inputs():
    x = torch.arange(1.0, 5).requires_grad_()
    y = x * 1
    return [x], [y]""",
        )
        function, inputs = PROGRAM.functions()
        (leaf,), (argument,) = inputs()
        self.assertEqual(function(argument)[1].detach(), torch.tensor([4.0, 6, 8]))
        self.assertTrue(leaf.is_leaf)

    def test_verified(self) -> None:
        """A correct program is verified with the options given."""
        result = PROGRAM.verify(dynamic=True)
        self.assertIn("aten.sin.default", result.forward_text)

    def test_failure(self) -> None:
        """The error has the script of a smaller program, and the script fails in the same way."""
        with self.assertRaises(AssertionError) as caught:
            PROGRAM.verify(backend=loses_sines)
        script = str(caught.exception)[str(caught.exception).index("import torch") :]
        self.assertExpectedInline(
            script,
            """\
import torch
from harness.graphs import verify_aot
from suites.selftest.graphs.test_programs import loses_sines

def f(a):
    t0 = a * 3
    t2 = t0.sin()
    t3 = t2 + 1
    return (t3,)

def inputs():
    x = torch.arange(1.0, 5).requires_grad_()
    y = x * 1
    return [x], [y]

verify_aot(f, inputs, backend=loses_sines, test_mutation=True)
""",
        )
        with self.assertRaisesRegex(AssertionError, "the output: values differ|output 0: values differ"):
            exec(script, {})

    def test_known(self) -> None:
        """A known error is raised unchanged, and a program that fails with one is not taken as smaller."""

        class Odd(AssertionError):
            """The error for a graph without products: of another type than the program's."""

        def fails(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Callable[..., Any]:
            count = len(graph.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor))
            raise AssertionError(f"{count} products") if count else Odd("none")

        with self.assertRaisesRegex(AssertionError, "^2 products$"):
            PROGRAM.verify(backend=fails, known=lambda error: "2 products" in str(error))
        for known, text in (("1 products", r"^2 products\n"), ("", r"^1 products\n")):
            with self.subTest(known=known), self.assertRaisesRegex(AssertionError, text):
                PROGRAM.verify(backend=fails, known=lambda error, known=known: str(error) == known)  # type: ignore[misc]  # it infers no lambda with a default

    def test_usage_errors(self) -> None:
        """A UsageError is raised unchanged."""
        with self.assertRaisesRegex(UsageError, "^backend=3: give a name"):
            PROGRAM.verify(backend=3)

    def test_options_that_have_no_source(self) -> None:
        """An option without a source form stands in a comment that says what to add."""
        script = PROGRAM.script(backend=Compilers("mine", nop, nop), dynamic=True, decompositions={3: nop})
        *_, first, second, call, end = script.split("\n")
        self.assertIn(
            "# Add backend=, as the test has it: Compilers(name='mine', forward=<function nop", first
        )
        self.assertIn("# Add decompositions=, as the test has it: {3: <function nop", second)
        self.assertEqual((call, end), ("verify_aot(f, inputs, dynamic=True)", ""))
        compile(script, "script", "exec")

    def test_runs_in_eager(self) -> None:
        """A program does not run in eager if it writes to a tensor that a backward needs."""
        self.assertTrue(PROGRAM.runs_in_eager())
        over = ViewProgram(
            PROGRAM.setup, PROGRAM.leaves, ("y",), ("a",), ("t0 = a.sin()", "a.mul_(2)"), ("t0",)
        )
        self.assertFalse(over.runs_in_eager())

    def test_without_backward(self) -> None:
        """Named are written arguments alone, and of them those whose backward needs what was written over."""
        for body, expected in (
            (("t0 = a.sin()", "a.add_(t0)"), ("a",)),
            (("t0 = a.sin()", "b.add_(t0)"), ()),
            (("a.mul_(2)",), ()),
            (("t0 = b * b", "b.zero_()", "a.add_(t0)", "b.copy_(a)"), ("a", "b")),
        ):
            with self.subTest(body=body):
                setup, lines = (*PROGRAM.setup, "z = x * 2"), (*body, "c = a * 1")
                program = ViewProgram(setup, ("x",), ("y", "z"), ("a", "b"), lines, ("c",))
                self.assertEqual(expected, program.without_backward())


if __name__ == "__main__":
    unittest.main()
