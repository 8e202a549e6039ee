"""Tests that the first step of an optimizer without state runs eagerly, and leaves what a graph would."""

from __future__ import annotations

import unittest
from typing import Any

from torch import nn
from torch.optim import SGD, Adam

from harness.graphs.train_step import compile
from harness.graphs.train_step.warm_up import is_needed
from suites.selftest.graphs.train_step.step_test_case import StepTestCase, compiled_of, sgd, sum_step


class WarmUpTest(StepTestCase):
    """A compiled step with ``warm_up``."""

    def test_warm_up(self) -> None:
        for make in (
            sgd,
            lambda m: Adam(m.parameters(), lr=0.1),
            lambda m: SGD(m.parameters(), lr=0.1, momentum=0.5),
        ):
            self.same_as_eager(nn.Linear(3, 2), optimizer=make, warm_up=True)

    def test_warm_up_of_state_that_comes_later(self) -> None:
        def momentum(module: nn.Module, optimizer: Any) -> None:
            optimizer.param_groups[0]["momentum"] = 0.5

        self.same_as_eager(nn.Linear(3, 2), between=momentum, graphs=2, warm_up=True)

        def add_group(module: Any, optimizer: Any) -> None:
            if len(optimizer.param_groups) == 1:
                optimizer.add_param_group({"params": module[1].parameters()})

        self.same_as_eager(
            nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)),
            optimizer=lambda module: Adam(module[0].parameters(), lr=0.1),
            between=add_group,
            graphs=2,
            warm_up=True,
        )

    def test_warm_up_leaves_what_a_graph_leaves(self) -> None:
        module, _, x = self.linear()
        optimizer = Adam(module.parameters())
        step = compile(warm_up=True)(sum_step)
        loss = step(module, optimizer, x)
        self.assertFalse(loss.requires_grad)
        self.assertIsNone(module.weight.grad)
        self.assertEqual(len(compiled_of(step).graphs), 1)

    def test_is_needed(self) -> None:
        """A warm-up is needed while a parameter that requires a gradient has no state."""
        module, _, x = self.linear()
        optimizer = Adam([module.weight])
        self.assertFalse(is_needed(None))
        self.assertTrue(is_needed(optimizer))
        sum_step(module, optimizer, x)
        self.assertFalse(is_needed(optimizer))
        optimizer.add_param_group({"params": [module.bias]})
        self.assertTrue(is_needed(optimizer))
        module.bias.requires_grad_(False)
        self.assertFalse(is_needed(optimizer), "a frozen parameter gets no state")


if __name__ == "__main__":
    unittest.main()
