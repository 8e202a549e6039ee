"""Tests a step's side effects other than in-place changes: the graph repeats them, or they are refused."""

from __future__ import annotations

import copy
import random
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from harness.errors import UsageError
from harness.graphs.train_step import compile
from suites.selftest.graphs.train_step.step_test_case import StepTestCase, sgd, sum_step

Made = Callable[[nn.Module], Optimizer]


class WithForward(nn.Module):  # type: ignore[misc]  # torch is not followed
    """A layer and two buffers, with a forward that a test gives."""

    def __init__(self, forward: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.register_buffer("one", torch.ones(2))
        self.register_buffer("other", torch.zeros(2))
        self.calls = 0
        self.kept: list[Any] = []
        self._forward = forward

    def forward(self, x: Tensor) -> Tensor:
        """Calls the forward that the test gave."""
        return self._forward(self, x)


class Rebinding(Optimizer):  # type: ignore[misc]  # as above
    """An optimizer with momentum that replaces its state, a tensor and a list of one, in each step."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module.parameters(), {"lr": 0.1})
        for parameter in module.parameters():
            self.state[parameter] = {"mean": torch.zeros_like(parameter), "last": [torch.zeros(())]}

    @torch.no_grad()  # type: ignore[untyped-decorator]  # as above
    def step(self, closure: None = None) -> None:
        """Applies one optimizer step."""
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            state["mean"] = 0.5 * state["mean"] + parameter.grad
            state["last"] = [parameter.grad.sum()]
            parameter.sub_(state["mean"], alpha=self.param_groups[0]["lr"])


class CarriedOnTest(StepTestCase):
    """Side effects that the graph repeats as eager does."""

    def test_buffer_that_is_assigned(self) -> None:
        def forward(self: Any, x: Tensor) -> Tensor:
            y: Tensor = self.fc(x) * self.one
            self.one = 0.5 * self.one + y.detach().mean(dim=0)
            return y

        self.same_as_eager(WithForward(forward))

    def test_buffers_that_change_places(self) -> None:
        def forward(self: Any, x: Tensor) -> Tensor:
            self.one, self.other = self.other, self.one
            return self.fc(x) * self.one

        self.same_as_eager(WithForward(forward))

    def test_buffer_assigned_and_changed(self) -> None:
        def forward(self: Any, x: Tensor) -> Tensor:
            self.one = self.other + 1
            self.other.add_(1)
            self.one.mul_(3)
            return self.fc(x) * self.one

        self.same_as_eager(WithForward(forward))

    def test_optimizer_state_that_is_assigned(self) -> None:
        self.same_as_eager(nn.Linear(3, 2), optimizer=Rebinding)

    def test_in_place_on_the_data(self) -> None:
        class ByData(SGD):  # type: ignore[misc]  # as above
            """An optimizer that changes the ``data`` of its parameters in place."""

            def step(self, closure: None = None) -> None:
                """Applies one optimizer step."""
                for parameter in self.param_groups[0]["params"]:
                    parameter.data.sub_(parameter.grad, alpha=self.param_groups[0]["lr"])

        self.same_as_eager(nn.Linear(3, 2), optimizer=lambda module: ByData(module.parameters(), lr=0.1))


class RefusedTest(StepTestCase):
    """Side effects that are refused in one line, which leaves the module and the optimizer unchanged."""

    def refused(self, words: str, module: nn.Module, function: Any = sum_step, make: Made = sgd) -> None:
        optimizer = make(module)
        before = copy.deepcopy((dict(module.state_dict()), optimizer.state_dict()))
        attributes = {name: dict(vars(part)) for name, part in module.named_modules()}
        with self.assertRaisesRegex(UsageError, words) as caught:
            compile()(function)(module, optimizer, torch.ones(4, 3))
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual((dict(module.state_dict()), optimizer.state_dict()), before)
        self.assertEqual([n for n, p in module.named_parameters() if p.grad is not None], [])
        for name, part in module.named_modules():
            for key, value in vars(part).items():
                self.assertIs(value, attributes[name][key], f"{name} {key}")

    def check_forward(self, words: str, forward: Callable[[Any, Tensor], Tensor]) -> None:
        self.refused(words, WithForward(forward))

    def test_state_that_the_step_creates(self) -> None:
        words = (
            r"creates optimizer state weight\.step, optimizer state weight\.exp_avg, .*exp_avg_sq, which "
            r"it would create again in each call: run one eager step .* first, or give .*warm_up=True"
        )
        self.refused(words, nn.Linear(3, 2), make=lambda module: Adam(module.parameters()))

    def test_momentum_that_the_step_creates(self) -> None:
        words = r"creates optimizer state weight\.momentum_buffer, optimizer state bias\.momentum_buffer"
        self.refused(words, nn.Linear(3, 2), make=lambda m: SGD(m.parameters(), lr=0.1, momentum=0.9))

    def test_buffer_that_the_step_creates(self) -> None:
        def forward(self: Any, x: Tensor) -> Tensor:
            self.register_buffer("late", torch.zeros(1))
            return self.fc(x)

        self.check_forward("the step (creates buffer late|changes what is no tensor)", forward)

    def test_state_that_the_step_removes(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor) -> None:
            sum_step(module, optimizer, x)
            optimizer.state.clear()

        self.refused("removes optimizer state weight.mean", nn.Linear(3, 2), step, Rebinding)

    def test_buffer_of_another_shape(self) -> None:
        def forward(self: Any, x: Tensor) -> Tensor:
            self.one = x.sum(dim=0)
            return self.fc(x)

        self.check_forward(r"puts float32\[3\] in the place of buffer one, which is float32\[2\]", forward)

    def test_parameter_that_is_assigned(self) -> None:
        def forward(self: Any, x: Tensor) -> Tensor:
            y: Tensor = self.fc(x)
            self.fc.weight = nn.Parameter(self.fc.weight * 2)
            return y

        self.check_forward("another tensor in the place of parameter fc.weight", forward)

    def test_data_that_is_assigned(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor) -> None:
            module(x).sum().backward()
            for parameter in module.parameters():
                parameter.data = parameter.data - 0.1 * parameter.grad

        self.refused("assigns to the data of parameter weight, parameter bias", nn.Linear(3, 2), step)

    def test_counter_of_a_module(self) -> None:
        def forward(self: Any, x: Tensor) -> Tensor:
            self.calls += 1
            return self.fc(x)

        self.check_forward("the step changes what is no tensor, .*: module calls: 0 -> 1", forward)

    def test_list_of_a_module(self) -> None:
        def forward(self: Any, x: Tensor) -> Tensor:
            y: Tensor = self.fc(x)
            self.kept.append(y.detach())
            return y

        self.check_forward(r"module kept: list\(\) -> list\(float32\[4, 2\]\)", forward)

    def test_mode_of_a_module(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor) -> Tensor:
            module.train(not module.training)
            return sum_step(module, optimizer, x)

        self.refused("module training: True -> False", nn.Linear(3, 2), step)

    def test_list_around_the_function(self) -> None:
        losses: list[Any] = []

        def step(module: Any, optimizer: Any, x: Tensor) -> None:
            losses.append(sum_step(module, optimizer, x))

        self.refused("captured losses: list", nn.Linear(3, 2), step)

    def test_counter_around_the_function(self) -> None:
        calls = 0

        def step(module: Any, optimizer: Any, x: Tensor) -> None:
            nonlocal calls
            calls += 1
            sum_step(module, optimizer, x)

        self.refused("captured calls: 0 -> 1", nn.Linear(3, 2), step)

    def test_hyper_parameter(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor) -> None:
            sum_step(module, optimizer, x)
            optimizer.param_groups[0]["weight_decay"] = 0.5

        self.refused("optimizer group 0 weight_decay: 0 -> 0.5", nn.Linear(3, 2), step)

    def test_number_in_optimizer_state(self) -> None:
        class Counting(SGD):  # type: ignore[misc]  # as above
            """An optimizer that counts its steps in Python."""

            def step(self, closure: None = None) -> None:
                """Applies one optimizer step."""
                super().step()
                for parameter in self.param_groups[0]["params"]:
                    self.state[parameter]["step"] = self.state[parameter].get("step", 0) + 1

        def make(module: nn.Module) -> Optimizer:
            return Counting(module.parameters(), lr=0.1)

        self.refused(r"optimizer state weight\.step: nothing -> 1", nn.Linear(3, 2), make=make)

    def test_random_numbers_of_python_and_numpy(self) -> None:
        draws: list[Callable[[], object]] = [random.random, np.random.rand, lambda: torch.manual_seed(3)]
        for draw in draws:

            def step(module: Any, optimizer: Any, x: Tensor) -> None:
                draw()  # noqa: B023 - called before the next one comes
                sum_step(module, optimizer, x)

            self.refused("seeds a random generator, or draws from Python's or numpy's", nn.Linear(3, 2), step)


if __name__ == "__main__":
    unittest.main()
