"""Tests that a trace executes nothing, keeps the result's structure, and refuses what cannot be a graph."""

from __future__ import annotations

import copy
import unittest
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import ASGD, Adam, RAdam

from harness.errors import UsageError
from harness.graphs.train_step import compile
from suites.selftest.graphs.train_step.step_test_case import StepTestCase, compiled_of, sgd, sum_step


class Failing(nn.Linear):  # type: ignore[misc]  # as above
    """A module whose forward raises after it has computed something."""

    def forward(self, x: Tensor) -> Tensor:
        """Always raises."""
        super().forward(x)
        raise RuntimeError("a fault of the user's own")


class ReturnedTest(StepTestCase):
    """The values that a compiled step returns."""

    def returned(self, make: Any) -> Any:
        """Runs a step that returns what ``make`` makes; the result of the second call, with its inputs."""

        def step(module: Any, optimizer: Any, x: Tensor) -> Any:
            return make(module, optimizer, x, sum_step(module, optimizer, x))

        module, optimizer, x = self.linear()
        compiled = compile()(step)
        compiled(module, optimizer, x)
        expected_of = copy.deepcopy(module)
        found = compiled(module, optimizer, x)
        self.same_as_eager(nn.Linear(3, 2), step)
        return module, optimizer, x, expected_of, found

    def test_structures(self) -> None:
        *_, found = self.returned(lambda m, o, x, loss: {"a": [loss, None, 3], "b": (m(x), "word")})
        self.assertEqual(list(found), ["a", "b"])
        self.assertEqual(found["a"][1:], [None, 3])
        self.assertEqual((found["b"][0].shape, found["b"][1]), ((4, 2), "word"))

    def test_nothing(self) -> None:
        self.assertIsNone(self.returned(lambda m, o, x, loss: None)[-1])

    def test_numbers_of_tensors(self) -> None:
        *_, found = self.returned(lambda m, o, x, loss: loss.item() / 2)
        self.assertIsInstance(found, float)

    def test_nothing_to_go_back_through(self) -> None:
        *_, found = self.returned(lambda m, o, x, loss: [loss, m(x), m.weight.grad])
        self.assertEqual([each.requires_grad for each in found], [False, False, False])

    def test_own_tensors(self) -> None:
        module, _, x, _, found = self.returned(lambda m, o, x, loss: [m.weight, x])
        self.assertIs(found[0], module.weight)
        self.assertIs(found[1], x)

    def test_module_and_optimizer(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor) -> Any:
            sum_step(module, optimizer, x)
            return module, optimizer

        module, optimizer, x = self.linear()
        found = compile()(step)(module, optimizer, x)
        self.assertIs(found[0], module)
        self.assertIs(found[1], optimizer)

    def test_gradients(self) -> None:
        def step(module: Any, x: Tensor) -> list[Any]:
            module(x).sum().backward()
            return [parameter.grad for parameter in module.parameters()]

        module, _, x = self.linear()
        found = compile()(step)(module, x)
        self.assertEqual(found, [x.sum(dim=0).expand(2, 3), torch.full((2,), 4.0)])
        self.assertIsNone(module.weight.grad)


class NotExecutedTest(StepTestCase):
    """A trace changes nothing, whether it succeeds or fails."""

    def test_trace_alone(self) -> None:
        module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
        optimizer = Adam(module.parameters())
        x = torch.randn(4, 3)
        sum_step(module, optimizer, x)
        optimizer.zero_grad()
        before = copy.deepcopy((dict(module.state_dict()), optimizer.state_dict(), torch.get_rng_state()))

        class Stop(Exception):
            """Raised to end a call right after its trace."""

        def stop(gm: Any) -> Any:
            raise Stop

        with self.assertRaises(Stop):
            compile(gm_transformation=stop)(sum_step)(module, optimizer, x)
        after = (dict(module.state_dict()), optimizer.state_dict(), torch.get_rng_state())
        self.assertEqual(after, before, rtol=0, atol=0)
        self.assertTrue(all(type(each) is nn.Parameter for each in module.parameters()))

    def test_capturable_is_for_the_trace_alone(self) -> None:
        for kind in (RAdam, ASGD):
            module, _, x = self.linear()
            optimizer = kind(module.parameters())
            compiled = compile(warm_up=True)(sum_step)
            for _ in range(2):
                compiled(module, optimizer, x)
            self.assertIs(optimizer.param_groups[0]["capturable"], False)
            self.assertFalse(torch.compiler.is_compiling())
            sum_step(module, optimizer, x)  # refused on the CPU, were it capturable

    def test_the_users_own_error(self) -> None:
        module = Failing(3, 2)
        before = copy.deepcopy(dict(module.state_dict()))
        with self.assertRaisesRegex(RuntimeError, "a fault of the user's own"):
            compile()(sum_step)(module, sgd(module), torch.ones(4, 3))
        self.assertEqual(dict(module.state_dict()), before)
        self.assertTrue(all(type(each) is nn.Parameter for each in module.parameters()))

    def test_a_step_after_a_failed_one(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor, fail: bool) -> Any:
            loss = sum_step(module, optimizer, x)
            if fail:
                raise RuntimeError("once")
            return loss

        module, optimizer, x = self.linear()
        compiled = compile()(step)
        with self.assertRaisesRegex(RuntimeError, "once"):
            compiled(module, optimizer, x, True)
        before = module.weight.clone()
        compiled(module, optimizer, x, False)
        self.assertEqual(module.weight, before - 0.1 * x.sum(dim=0))
        self.assertEqual(len(compiled_of(compiled).graphs), 1)


class SymbolsTest(StepTestCase):
    """Python numbers that are symbols in the graph."""

    def test_numbers_out_of_state(self) -> None:
        def make(module: nn.Module) -> Adam:
            return Adam(module.parameters(), lr=0.1, amsgrad=True)

        compiled = self.same_as_eager(nn.Linear(3, 2), optimizer=make, warm_up=True, graphs=1)
        counts = compiled.gm.graph.find_nodes(
            op="call_function", target=torch.ops.aten._local_scalar_dense.default
        )
        self.assertEqual(len(counts), 2, "the step count of each parameter")


class RefusedTest(StepTestCase):
    """Steps that cannot be one graph are refused in one line that names the place in the code."""

    def test_returned_tensor_from_outside(self) -> None:
        weights = torch.ones(4, 2)
        with self.assertRaisesRegex(UsageError, "returns a tensor that is neither computed by it nor"):
            module, optimizer, x = self.linear()
            compile()(lambda module, optimizer, x: weights)(module, optimizer, x)

    def test_returned_object(self) -> None:
        with self.assertRaisesRegex(UsageError, "the step returns a object: return tensors"):
            module, optimizer, x = self.linear()
            compile()(lambda module, optimizer, x: [x, object()])(module, optimizer, x)


if __name__ == "__main__":
    unittest.main()
