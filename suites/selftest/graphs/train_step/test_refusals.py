"""Tests that a step which cannot be one graph is refused in one line that names the place in the code."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DynamicOutputShapeException
from torch.nn import functional as F

from harness.errors import UsageError
from harness.graphs.train_step import compile
from harness.graphs.train_step.refusals import in_words, made_by_optimizer
from suites.selftest.graphs.train_step.step_test_case import StepTestCase, sgd, sum_step


class Branching(nn.Module):  # type: ignore[misc]  # torch is not followed
    """A module that branches on the values of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the layer's output or its negative."""
        return self.fc(x) if x.sum() > 0 else -self.fc(x)


class RefusedTest(StepTestCase):
    """Steps whose trace fails are refused in one line that names the place in the code."""

    def refused(self, words: str, module: nn.Module, function: Any = sum_step) -> None:
        with self.assertRaisesRegex(UsageError, words) as caught:
            compile()(function)(module, sgd(module), torch.ones(4, 3))
        self.assertNotIn("\n", str(caught.exception))
        self.assertIsNotNone(caught.exception.__cause__)

    def test_decision_by_a_value(self) -> None:
        self.refused(r"needs the value of a tensor in Python at test_refusals\.py:\d+, so it", Branching())

    def test_number_of_a_tensor_in_python(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor) -> None:
            sum_step(module, optimizer, x * float(x.sum()))

        self.refused(r"needs the value of a tensor in Python at test_refusals\.py:\d+", nn.Linear(3, 2), step)

    def test_tensor_from_outside(self) -> None:
        weights = torch.ones(4, 2)

        def step(module: Any, optimizer: Any, x: Tensor) -> None:
            F.mse_loss(module(x), weights).backward()

        words = (
            r"a tensor at test_refusals\.py:\d+ that is neither an argument nor .* register it as a buffer"
        )
        self.refused(words, nn.Linear(3, 2), step)


class WordsTest(unittest.TestCase):
    """The functions ``in_words`` and ``made_by_optimizer``."""

    def test_operator_without_a_shape(self) -> None:
        """An operator that cannot be traced is named with its place."""
        words = r"cannot be traced at test_refusals\.py:\d+: DynamicOutputShapeException: aten\.nonzero"
        with self.assertRaisesRegex(UsageError, words) as caught, in_words():
            raise DynamicOutputShapeException(torch.ops.aten.nonzero.default)
        self.assertIsInstance(caught.exception.__cause__, DynamicOutputShapeException)

    def test_other_errors(self) -> None:
        """An error of the user's own code is raised unchanged."""
        error = ValueError("a fault of the user's own")
        with self.assertRaises(ValueError) as caught, in_words():
            raise error
        self.assertIs(caught.exception, error)

    def test_made_by_optimizer(self) -> None:
        """An error was made by an optimizer if it was raised in a call from one of torch's."""

        def fails(*args: Any) -> None:
            raise RuntimeError

        optimizer = sgd(nn.Linear(1, 1))
        for call, expected in ((lambda: optimizer.step(fails), True), (fails, False)):
            try:
                call()
            except RuntimeError as error:  # assertRaises would drop the traceback
                self.assertIs(made_by_optimizer(error), expected)
            else:
                self.fail("nothing was raised")


if __name__ == "__main__":
    unittest.main()
