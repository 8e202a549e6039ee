"""Tests the script of a function beside eager, with compilers that are right and that are wrong."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace
from typing import Any

from harness.fuzzing.functions import Inputs, TensorFunction, from_json
from harness.fuzzing.signature import of_exception

INPUTS = Inputs(
    ("x0 = torch.arange(1.0, 5.0).requires_grad_()", "y0 = x0 * 1"), ("x0",), ("y0", "y0.view(2, 2)")
)
FUNCTION = TensorFunction(INPUTS, ("a.mul_(2)", "t0 = b.sin()"), ("t0", "a"), "f", again=INPUTS)


def executed(function: TensorFunction) -> None:
    """Executes a function's script in this process."""
    exec(compile(function.script(), "<script>", "exec"), {"__name__": "__main__"})


class ScriptTest(unittest.TestCase):
    def test_right_compiler(self) -> None:
        executed(FUNCTION)

    def test_wrong_compilers(self) -> None:
        for compiler, what in (
            ("lambda a, b: f(a.clone(), b)", "argument #: values"),
            ("lambda a, b: [t.detach() for t in f(a, b)]", "output #: requires_grad"),
            ("lambda a, b: [t * 2 for t in f(a, b)]", "output #: values"),
            ("lambda a, b: [t * 1 for t in f(a, b)]", "output #: shares memory with argument #"),
            ("lambda a, b: [t.view_as(t) for t in f(a, b)]", "output #: is argument #"),
            ("lambda a, b: [t.sum() for t in f(a, b)]", "output #: values"),
            (
                "lambda a, b: [t + 0 * t.detach() - (t - t.detach()) * 0.5 for t in f(a, b)]",
                "output #: shares",
            ),
        ):
            with self.subTest(compiler=compiler), self.assertRaises(AssertionError) as caught:
                executed(replace(FUNCTION, compiler=compiler))
            self.assertIn(what, of_exception(caught.exception).text)

    def test_wrong_gradient(self) -> None:
        halved = "lambda a, b: [t.detach() + (t - t.detach()) * 0.5 for t in f(a, b)]"
        function = replace(FUNCTION, outputs=("t0",), compiler=halved)
        with self.assertRaisesRegex(AssertionError, "output 0: gradient of leaf 0"):
            executed(function)

    def test_second_call(self) -> None:
        once = "(lambda calls: lambda a, b: f(a, b) if calls.append(1) or len(calls) < 2 else [b, a])([])"
        executed(replace(FUNCTION, compiler=once, again=None))
        with self.assertRaises(AssertionError):
            executed(replace(FUNCTION, compiler=once))

    def test_encoded(self) -> None:
        self.assertEqual(from_json(json.loads(json.dumps(FUNCTION.to_json()))), FUNCTION)


class SmallerTest(unittest.TestCase):
    def smaller(self, **changed: Any) -> list[TensorFunction]:
        return list(replace(FUNCTION, **changed).smaller())

    def test_what_is_left_out(self) -> None:
        found = self.smaller()
        self.assertIn(replace(FUNCTION, again=None), found)
        self.assertIn(replace(FUNCTION, body=("t0 = b.sin()",)), found)
        self.assertIn(replace(FUNCTION, outputs=("a",)), found)

    def test_contexts_and_options(self) -> None:
        found = self.smaller(body=("with torch.no_grad(): a.mul_(2)",), compiler="c(dynamic=True)")
        self.assertIn("a.mul_(2)", {line for each in found for line in each.body})
        self.assertIn("c(dynamic=False)", {each.compiler for each in found})

    def test_arguments(self) -> None:
        found = self.smaller(again=None)
        self.assertIn(("y0", "y0"), {each.inputs.arguments for each in found})
        self.assertIn((), {each.inputs.leaves for each in found})

    def test_what_eager_refuses(self) -> None:
        self.assertTrue(FUNCTION.runs_in_eager())
        self.assertFalse(replace(FUNCTION, outputs=("t9",)).runs_in_eager())


if __name__ == "__main__":
    unittest.main()
