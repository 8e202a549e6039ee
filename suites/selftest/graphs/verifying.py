"""What the self-tests of ``verify_aot`` share: functions to verify, faults to plant, and a test case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from harness import DynamoTestCase, UsageError
from harness.graphs import AotFunction, Compilation, Compilers, FrontEnd, nop, verify_aot

Function = Callable[..., Any]


def writes(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Write to ``a``; return a view of it, a product, and a view of the product."""
    a.mul_(2)
    product = a * b
    return a.view(-1), product, product.t()


def products(weight: torch.Tensor, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Two outputs in a dictionary."""
    return {"loss": (weight * batch["x"]).sum(), "twice": 2 * weight}


def triple(a: torch.Tensor) -> torch.Tensor:
    """Returns one new tensor."""
    return a * 3


def inputs() -> list[torch.Tensor]:
    """Returns new arguments for ``writes``."""
    return [torch.arange(1.0, 5).reshape(2, 2).clone(), torch.arange(5.0, 9).reshape(2, 2).clone()]


class Changed(FrontEnd):
    """``AotFunction`` with a fault: ``call(compiled, eager, arguments)`` runs in the place of each call."""

    name = "changed"

    def __init__(self, call: Callable[[Function, Function, tuple[Any, ...]], Any]) -> None:
        self.call = call

    def compile(self, function: Function, how: Compilation) -> Function:
        """Compile, and return a function that calls ``call``."""
        compiled = AotFunction().compile(function, how)
        return lambda *arguments: self.call(compiled, function, arguments)


def on_outputs(change: Callable[[list[Any]], None]) -> FrontEnd:
    """A front end that applies ``change`` to the list of outputs of each call."""

    def call(compiled: Function, eager: Function, arguments: tuple[Any, ...]) -> Any:
        outputs = list(compiled(*arguments))
        change(outputs)
        return outputs

    return Changed(call)


def on_gradients(change: Callable[[list[Any]], None]) -> Compilers:
    """A backend that applies ``change`` to the list of gradients of each backward."""

    def backward(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Function:
        def run(*arguments: Any) -> list[Any]:
            gradients = list(graph(*arguments))
            change(gradients)
            return gradients

        return run

    return Compilers("faulty", nop, backward)


def put(index: int, change: Callable[[Any], Any]) -> Callable[[list[Any]], None]:
    """A change that replaces the item ``index`` of a list by ``change(item)``."""

    def replace(values: list[Any]) -> None:
        values[index] = change(values[index])

    return replace


def from_second_on(change: Callable[[list[Any], list[Any]], list[Any]]) -> Function:
    """A backend whose graphs return ``change(first outputs, outputs)`` from the second call on."""

    def compiler(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Function:
        first: list[Any] = []

        def run(*arguments: Any) -> list[Any]:
            outputs = list(graph(*arguments))
            if first:
                return change(first, outputs)
            first[:] = outputs
            return outputs

        return run

    return compiler


class VerifyTestCase(DynamoTestCase):
    """Assertions on verifications that fail."""

    def assertDiffers(self, *texts: str, function: Function = writes, **options: Any) -> str:
        """``verify_aot`` fails and its message has each of these texts as a line; returns the message."""
        given = {"inputs": inputs(), "requires_grad": True, "test_mutation": True, **options}
        with self.assertRaises(AssertionError) as caught:
            verify_aot(function, **given)
        message = str(caught.exception)
        for text in texts:
            self.assertIn(f"  {text}", message.split("\n"))
        return message

    def assertRefused(self, text: str, *arguments: Any, **options: Any) -> None:
        """``verify_aot`` raises a UsageError whose text matches ``text``."""
        with self.assertRaisesRegex(UsageError, text):
            verify_aot(*arguments, **options)
