"""Tests that a trace executes nothing, keeps the result's structure, and refuses what cannot be a graph."""

from __future__ import annotations

import copy
import unittest
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import ASGD, Adam, NAdam, RAdam

from harness.errors import UsageError
from harness.graphs.train_step import compile
from suites.selftest.graphs.train_step.step_test_case import StepTestCase, compiled_of, sgd, sum_step


class Branching(nn.Module):  # type: ignore[misc]  # torch is not followed
    """A module that branches on the values of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the layer's output or its negative."""
        return self.fc(x) if x.sum() > 0 else -self.fc(x)


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

    def test_learning_rate(self) -> None:
        def between(module: nn.Module, optimizer: Any) -> None:
            group = optimizer.param_groups[0]
            group["lr"] = {0.1: 0.0, 0.0: 1.0, 1.0: 0.5}[group["lr"]]

        for make in (sgd, lambda module: NAdam(module.parameters(), lr=0.1)):
            self.same_as_eager(nn.Linear(3, 2), optimizer=make, between=between, warm_up=make is not sgd)

    def test_learning_rate_that_decides_something(self) -> None:
        class Clamped(torch.optim.SGD):  # type: ignore[misc]  # as above
            """SGD that limits its learning rate to 0.05."""

            def step(self, closure: None = None) -> None:
                """Applies one optimizer step."""
                for group in self.param_groups:
                    for parameter in group["params"]:
                        rate = group["lr"] if group["lr"] < 0.05 else 0.05
                        with torch.no_grad():
                            parameter.sub_(rate * parameter.grad)

        def between(module: nn.Module, optimizer: Any) -> None:
            group = optimizer.param_groups[0]
            group["lr"] = {0.1: 0.01, 0.01: 0.02, 0.02: 0.1}[group["lr"]]

        def make(module: nn.Module) -> Clamped:
            return Clamped(module.parameters(), lr=0.1)

        inputs = [[torch.randn(4, 3)] for _ in range(3)]
        self.same_as_eager(nn.Linear(3, 2), inputs=inputs, optimizer=make, between=between, graphs=3)


class RefusedTest(StepTestCase):
    """Steps that cannot be one graph are refused in one line that names the place in the code."""

    def refused(self, words: str, module: nn.Module, function: Any = sum_step) -> None:
        with self.assertRaisesRegex(UsageError, words) as caught:
            compile()(function)(module, sgd(module), torch.ones(4, 3))
        self.assertNotIn("\n", str(caught.exception))
        self.assertIsNotNone(caught.exception.__cause__)

    def test_decision_by_a_value(self) -> None:
        self.refused(r"needs the value of a tensor in Python at test_tracing\.py:\d+, so it", Branching())

    def test_number_of_a_tensor_in_python(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor) -> None:
            sum_step(module, optimizer, x * float(x.sum()))

        self.refused(r"needs the value of a tensor in Python at test_tracing\.py:\d+", nn.Linear(3, 2), step)

    def test_tensor_from_outside(self) -> None:
        weights = torch.ones(4, 2)

        def step(module: Any, optimizer: Any, x: Tensor) -> None:
            F.mse_loss(module(x), weights).backward()

        words = r"a tensor at test_tracing\.py:\d+ that is neither an argument nor .* register it as a buffer"
        self.refused(words, nn.Linear(3, 2), step)

    def test_returned_tensor_from_outside(self) -> None:
        weights = torch.ones(4, 2)
        with self.assertRaisesRegex(UsageError, "returns a tensor that is neither computed by it nor"):
            module, optimizer, x = self.linear()
            compile()(lambda module, optimizer, x: weights)(module, optimizer, x)

    def test_returned_object(self) -> None:
        with self.assertRaisesRegex(UsageError, "the step returns a object: return tensors"):
            module, optimizer, x = self.linear()
            compile()(lambda module, optimizer, x: [x, object()])(module, optimizer, x)

    def test_sparse_gradient(self) -> None:
        module = nn.Embedding(5, 2, sparse=True)
        with self.assertRaisesRegex(UsageError, "a gradient is sparse"):
            compile()(sum_step)(module, sgd(module), torch.tensor([1, 3]))


if __name__ == "__main__":
    unittest.main()
