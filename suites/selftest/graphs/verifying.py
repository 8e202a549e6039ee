"""Functions to verify, and faults to plant before the verifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from harness import DynamoTestCase, UsageError
from harness.graphs import AotFunction, Compilation, Compilers, FrontEnd, nop, verify_aot

Function = Callable[..., Any]


def writes(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Writes to ``a``; returns a view of it, something new, and a view of that."""
    a.mul_(2)
    product = a * b
    return a.view(-1), product, product.t()


def products(weight: torch.Tensor, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Two outputs by name."""
    return {"loss": (weight * batch["x"]).sum(), "twice": 2 * weight}


def triple(a: torch.Tensor) -> torch.Tensor:
    """Something new."""
    return a * 3


def inputs() -> list[torch.Tensor]:
    """Arguments for ``writes``."""
    return [torch.arange(1.0, 5).reshape(2, 2).clone(), torch.arange(5.0, 9).reshape(2, 2).clone()]


class Changed(FrontEnd):
    """``AotFunction`` whose compiled functions do something else as well.

    ``call(compiled, eager, arguments)`` is what happens in the place of a call.
    """

    name = "changed"

    def __init__(self, call: Callable[[Function, Function, tuple[Any, ...]], Any]) -> None:
        self.call = call

    def compile(self, function: Function, how: Compilation) -> Function:
        """Both functions are given to ``call``."""
        compiled = AotFunction().compile(function, how)
        return lambda *arguments: self.call(compiled, function, arguments)


def on_outputs(change: Callable[[list[Any]], None]) -> FrontEnd:
    """A front end after whose calls ``change`` has its way with the list of outputs."""

    def call(compiled: Function, eager: Function, arguments: tuple[Any, ...]) -> Any:
        outputs = list(compiled(*arguments))
        change(outputs)
        return outputs

    return Changed(call)


def on_gradients(change: Callable[[list[Any]], None]) -> Compilers:
    """A backend after whose backwards ``change`` has its way with the list of gradients."""

    def backward(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Function:
        def run(*arguments: Any) -> list[Any]:
            gradients = list(graph(*arguments))
            change(gradients)
            return gradients

        return run

    return Compilers("faulty", nop, backward)


def put(index: int, change: Callable[[Any], Any]) -> Callable[[list[Any]], None]:
    """Replaces one item of a list."""

    def replace(values: list[Any]) -> None:
        values[index] = change(values[index])

    return replace


def from_second_on(change: Callable[[list[Any], list[Any]], list[Any]]) -> Function:
    """A backend each of whose graphs returns ``change(first outputs, outputs)`` from the second call on."""

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
    """Asks for a difference by its text."""

    def assertDiffers(self, *texts: str, function: Function = writes, **options: Any) -> str:
        """Verification fails, with these texts each on a line of its own; returns the whole message."""
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
