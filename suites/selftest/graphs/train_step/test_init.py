"""Tests ``compile``: what it sets on the decorated function, and which arguments and functions it refuses."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from harness.errors import UsageError
from harness.graphs.train_step import COMPILED_OBJECT_KEY, Override, compile
from suites.selftest.graphs.train_step.step_test_case import StepTestCase, compiled_of, sgd, sum_step


class NoOverride(Override):
    """An override that changes nothing."""

    def replacement(self, fqn: str, orig_submodule: nn.Module) -> nn.Module:
        return orig_submodule

    def transform(self, gm: GraphModule, flat_state: list[Tensor]) -> GraphModule:
        return gm


class DecoratedTest(StepTestCase):
    """The attributes of a decorated function."""

    def test_compiled_object(self) -> None:
        self.assertEqual(COMPILED_OBJECT_KEY, "_compiled_obj")
        module, optimizer, x = self.linear()
        step = compile()(sum_step)
        self.assertNotIn(COMPILED_OBJECT_KEY, step.__dict__)
        step(module, optimizer, x)
        compiled = compiled_of(step)
        self.assertIs(compiled.mod, module)
        self.assertIs(compiled.opt, optimizer)
        self.assertIsInstance(compiled.gm, GraphModule)
        self.assertEqual([id(t) for t in compiled.flat_state], [id(module.weight), id(module.bias)])
        gm = compiled.gm
        step(module, optimizer, x)
        self.assertIs(compiled_of(step), compiled)
        self.assertIs(compiled.gm, gm)
        self.assertNotIn(COMPILED_OBJECT_KEY, sum_step.__dict__)

    def test_name_and_docstring_are_the_function_s(self) -> None:
        step = compile()(sum_step)
        self.assertEqual((step.__name__, step.__doc__), (sum_step.__name__, sum_step.__doc__))

    def test_a_method_of_a_module(self) -> None:
        class Trained(nn.Linear):  # type: ignore[misc]  # torch is not followed
            """A module with a train step of its own."""

            @compile()
            def train_on(self, optimizer: Any, x: Tensor) -> Any:
                """Trains this module by one step."""
                return sum_step(self, optimizer, x)

        module = Trained(3, 2)
        before = module.weight.clone()
        module.train_on(sgd(module), torch.ones(4, 3))
        self.assertEqual(module.weight, before - 0.1 * 4)

    def test_nothing_there_before_the_first_call(self) -> None:
        step = compile()(sum_step)
        with self.assertRaisesRegex(UsageError, "not none"):
            step(torch.ones(1), None, None)
        self.assertNotIn(COMPILED_OBJECT_KEY, step.__dict__)


class RefusedTest(unittest.TestCase):
    """Arguments and functions that cannot be used are refused with a message of one line."""

    def refused(self, words: str, function: Any = sum_step, **options: Any) -> None:
        with self.assertRaisesRegex(UsageError, words) as caught:
            compile(**options)(function)
        self.assertNotIn("\n", str(caught.exception))

    def test_parentheses_forgotten(self) -> None:
        with self.assertRaisesRegex(UsageError, r"write @compile\(\), with parentheses"):
            compile(sum_step)  # type: ignore[arg-type]  # the mistake in question

    def test_not_a_function(self) -> None:
        self.refused("decorates a function, not a int", 3)

    def test_functions_that_do_not_run_when_called(self) -> None:
        async def coroutine(module: Any) -> None:
            """A function that returns a coroutine."""

        def generator(module: Any) -> Iterator[None]:
            yield

        for function in (coroutine, generator):
            self.refused("a train step is a plain function", function)

    def test_decorated_twice(self) -> None:
        self.refused("compiled already", compile()(sum_step))

    def test_overrides(self) -> None:
        for wrong in ([NoOverride], NoOverride(), ["name"], 3):
            self.refused("give a list of instances of Override", module_override=wrong)
        compile([NoOverride()])
        with self.assertRaisesRegex(TypeError, "abstract"):
            Override()  # type: ignore[abstract]  # the mistake in question

    def test_gm_transformation(self) -> None:
        self.refused("give a function of a graph module", gm_transformation="name")

    def test_sizes(self) -> None:
        self.refused("bucket_mb is 0", bucket_mb=0)
        self.refused("bucket_mb is nan", bucket_mb=float("nan"))
        self.refused("max_graphs is 0", max_graphs=0)
        self.refused("max_graphs is .8.", max_graphs="8")
        self.refused("bucket_mb is .25.", bucket_mb="25")
        self.refused("warm_up is .no.", warm_up="no")

    def test_group(self) -> None:
        self.refused("give a process group, a mesh of one dimension", group="world")
        self.refused("give a process group, a mesh of one dimension", group=[0, 1])


if __name__ == "__main__":
    unittest.main()
