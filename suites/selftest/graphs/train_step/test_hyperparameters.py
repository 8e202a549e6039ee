"""Tests which hyper-parameters are inputs of a graph, and for which other values the graph is valid."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, NAdam

from harness.graphs.train_step.hyperparameters import (
    Hyperparameter,
    describe_hyperparameters,
    lift_hyperparameters,
    put_hyperparameters,
)
from harness.graphs.train_step.snapshots import GuardSnapshot
from suites.selftest.graphs.train_step.step_test_case import StepTestCase, sgd


def weights(count: int = 1) -> list[Tensor]:
    """Parameters for an optimizer."""
    return [nn.Parameter(torch.zeros(1)) for _ in range(count)]


class LiftedTest(unittest.TestCase):
    """The functions ``lift_hyperparameters``, ``put_hyperparameters`` and ``describe_hyperparameters``."""

    def test_lifted(self) -> None:
        """Learning rates that are floats are lifted, and every tensor, but no other number."""
        betas = (torch.tensor(0.9), torch.tensor(0.99))
        tensors = [("betas", 0, betas[0], False), ("betas", 1, betas[1], False)]
        for name, optimizer, expected in (
            ("float", SGD(weights(), lr=0.5, momentum=0.9), [("lr", 0, 0.5, True)]),
            ("int", SGD(weights(), lr=1), []),
            ("tensor", SGD(weights(), lr=betas[0]), [("lr", 0, betas[0], False)]),
            ("betas", Adam(weights(), lr=0.5, betas=betas), [("lr", 0, 0.5, True), *tensors]),
        ):
            with self.subTest(name):
                lifted = lift_hyperparameters(optimizer)
                self.assertEqual([(e.key, e.leaf, e.value, e.is_number) for e in lifted], expected)
        self.assertEqual(lift_hyperparameters(None), ())

    def test_fused(self) -> None:
        """A fused optimizer's learning rate is a float64 tensor without dimensions."""
        (rate,) = lift_hyperparameters(SGD(weights(), lr=0.1, fused=True))
        assert isinstance(rate.value, Tensor)
        self.assertEqual((rate.value.dtype, rate.value.shape, rate.value.item()), (torch.float64, (), 0.1))
        self.assertTrue(rate.is_number)

    def test_param_groups(self) -> None:
        """Each param group has its own learning rate, under its own name."""
        one, other = weights(2)
        lifted = lift_hyperparameters(SGD([{"params": [one]}, {"params": [other], "lr": 0.5}], lr=0.1))
        self.assertEqual([each.value for each in lifted], [0.1, 0.5])
        self.assertEqual([each.name for each in lifted], ["optimizer group 0 lr", "optimizer group 1 lr"])

    def test_put(self) -> None:
        """``put_hyperparameters`` replaces the lifted leaves and keeps the others."""
        optimizer = Adam(weights(), lr=0.5, betas=(0.8, 0.9))
        second = Hyperparameter(0, "betas", 1, 0.9, is_number=True)
        put_hyperparameters(optimizer, [*lift_hyperparameters(optimizer), second], [0.25, 0.7])
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.25)
        self.assertEqual(optimizer.param_groups[0]["betas"], (0.8, 0.7))

    def test_described(self) -> None:
        """A snapshot notes all values, and the learning rate's type, but no parameters."""

        def snapshot(**options: Any) -> GuardSnapshot:
            found = GuardSnapshot()
            describe_hyperparameters(SGD(weights(), **options), found)
            return found

        before = snapshot(lr=1.0)
        self.assertEqual(before.differences(snapshot(lr=1.0)), [])
        self.assertCountEqual(
            before.differences(snapshot(lr=2, momentum=0.5)),
            [
                "optimizer group 0 lr: 1.0 -> 2",
                "type of optimizer group 0 lr: 'float' -> 'int'",
                "optimizer group 0 momentum: 0 -> 0.5",
            ],
        )


class LearningRateTest(StepTestCase):
    """A learning rate that changes from step to step."""

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


if __name__ == "__main__":
    unittest.main()
