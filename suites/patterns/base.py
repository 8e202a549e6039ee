"""The case that these suites share: counts of graphs, and compiled autograd under any release's name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo import compiled_autograd
from torch._dynamo.utils import counters

from harness import DynamoTestCase
from harness.targets import Capability, require
from suites.counted import Work
from suites.inductor import settle
from suites.target_device import default_to_target

#: Rounds of forward and backward that a model is taken through.
ROUNDS = 4


def accelerator() -> str:
    """The type of the accelerator, for tests that only run where there is one."""
    current = torch.accelerator.current_accelerator()
    assert current is not None, "asked for on a machine without one"
    return str(current.type)


def autograd_compiled_by(compiler: Callable[..., Any]) -> contextlib.AbstractContextManager[Any]:
    """A region in which ``compiler`` gets each backward as a graph."""
    enable = getattr(compiled_autograd, "_enable", None) or compiled_autograd.enable
    return enable(compiler)


def fullgraph(function: Callable[..., Any], backend: Any = "inductor") -> Callable[..., Any]:
    """``torch.compile`` that refuses to break the graph."""
    if backend == "inductor":
        require(Capability.INDUCTOR)
    return torch.compile(function, backend=backend, fullgraph=True)


def steps(model: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Take a model through ``ROUNDS`` forwards and backwards, whose gradients add up; the last output."""
    for _ in range(ROUNDS):
        output = model(inputs)
        output.sum().backward()
    return output


class PatternTestCase(DynamoTestCase):
    """A test in one process that says how many graphs it compiles."""

    def setUp(self) -> None:
        super().setUp()
        default_to_target(self)
        settle()

    @contextlib.contextmanager
    def compiles(self, *, eager: int = 0, aot_eager: int = 0, inductor: int = 0) -> Iterator[None]:
        """Expect that in this region each backend gets so many graphs, forward and backward together.

        What AOTAutograd and inductor make of theirs is expected too.
        """
        before, graphs = Work.so_far(), counters["stats"]["unique_graphs"]
        yield
        done = Work.so_far()
        self.assertEqual(counters["stats"]["unique_graphs"] - graphs, eager + aot_eager + inductor)
        self.assertEqual(done.graphs - before.graphs, aot_eager + inductor, "graphs of AOTAutograd")
        self.assertEqual(done.calls > before.calls, inductor > 0, "code of inductor")

    def assert_same_grad(self, one: Tensor, other: Tensor) -> None:
        """Check that two tensors, or parameters, are alike, with their gradients."""
        self.assertIs(type(one), type(other))
        self.assertEqual(one, other)
        self.assertEqual(one.requires_grad, other.requires_grad)
        self.assertEqual(one.is_leaf, other.is_leaf)
        if one.is_leaf:
            self.assertIs(one.grad is None, other.grad is None)
            if one.grad is not None:
                self.assertEqual(one.grad, other.grad)

    def assert_same_gradients(self, one: nn.Module, other: nn.Module) -> None:
        """Check the gradients of two modules, parameter by parameter; none may lack."""
        for (name, parameter), expected in zip(one.named_parameters(), other.parameters(), strict=True):
            with self.subTest(parameter=name):
                self.assertIsNotNone(expected.grad)
                self.assertEqual(parameter.grad, expected.grad)
