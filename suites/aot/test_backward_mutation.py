"""Writes that happen in the backward: to what was saved, to the gradient, to the forward's inputs."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.aot.base import AotTestCase, ramp


class DoublesSaved(torch.autograd.Function):
    """Identity whose backward doubles the forward's input, by a write."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        x.mul_(2)
        return grad.clone()


class TransposesSaved(torch.autograd.Function):
    """Identity on two tensors whose backward transposes the second, in place."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(b)
        return a.clone(), b.clone()

    @staticmethod
    def backward(ctx, grad_a, grad_b):
        (b,) = ctx.saved_tensors
        b.transpose_(1, 0)
        return grad_a.clone(), grad_b.clone()


class DoublesGradient(torch.autograd.Function):
    """Identity whose backward doubles the gradient that it is given, by a write."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        grad.mul_(2)
        return grad.clone()


def zeroing_operator(name):
    """A custom operator on (x, x1), a clone of x, whose backward zeroes x1 and doubles the gradient of x.

    It is registered under a name of its own for as long as the returned library lives.
    """
    library = torch.library.Library("suites_aot", "FRAGMENT")
    library.define(f"{name}(Tensor x, Tensor x1) -> Tensor")

    @torch.library.impl(library, name, "CompositeExplicitAutograd")
    def clone(x, x1):
        return x.clone()

    @torch.library.register_fake(f"suites_aot::{name}", lib=library)
    def fake(x, x1):
        return torch.empty_like(x)

    def save(ctx, inputs, output):
        ctx.x1 = inputs[1]

    def backward(ctx, grad):
        with torch.no_grad():
            ctx.x1.zero_()
        return grad * 2, None

    torch.library.register_autograd(f"suites_aot::{name}", backward, setup_context=save, lib=library)
    return library, getattr(torch.ops.suites_aot, name)


class BackwardMutationTest(AotTestCase):
    """What a backward writes to is written to in eager and compiled, or refused."""

    def test_backward_mutation_data(self):
        def f(a, b):
            return a * DoublesSaved.apply(b)

        inputs = [ramp(3, 3), ramp(3, 3, start=10)]
        for grad in (False, True):
            self.verify(f, inputs, requires_grad=[True, grad], test_mutation=True)

    def test_backward_mutation_metadata(self):
        def f(a, b):
            one, other = TransposesSaved.apply(a, b)
            return one * other

        inputs = [ramp(3, 3), ramp(3, 3, start=10)]
        with self.assertRaisesRegex(AssertionError, "input that had its metadata mutated in the backward"):
            self.verify(f, inputs, requires_grad=[True, False])

    def test_backward_mutation_on_grad_out(self):
        def f(a, b):
            return DoublesGradient.apply(a * b)

        inputs = [ramp(3, 3), ramp(3, 3, start=10)]
        self.verify(f, inputs, requires_grad=True)
        # Eager writes to the tensor that it was given, the compiled backward to one of its own.
        given = {}
        for name, function in (("eager", f), ("compiled", self.compile(f)[0])):
            a, b = (x.clone().requires_grad_() for x in inputs)
            given[name] = torch.ones(3, 3)
            function(a, b).backward(given[name])
            self.assertEqual(a.grad, 2 * inputs[1])
            self.assertEqual(b.grad, 2 * inputs[0])
        self.assertEqual(given, {"eager": torch.full((3, 3), 2.0), "compiled": torch.ones(3, 3)})

    def test_backward_mutation_forward_inputs(self):
        library, operator = zeroing_operator("clone")
        self.addCleanup(library._destroy)

        def inputs():
            x = torch.linspace(1, 3, 3, requires_grad=True)
            return [x], [x.clone(), ramp(3, start=5)]

        # The verifier compares the arguments after the backward: x1 is zero in both.
        self.verify(lambda x, x1: operator(x, x1), inputs)
        _, (x, x1) = inputs()
        compiled, capture = self.compile(operator)
        compiled(x, x1).sum().backward()
        self.assertEqual(x1, torch.zeros(3))
        self.assertEqual([graph.role for graph in capture.ran], ["forward", "backward"])

    def test_backward_mutation_forward_inputs_create_graph(self):
        library, operator = zeroing_operator("clone_create_graph")
        self.addCleanup(library._destroy)
        x = torch.linspace(1, 3, 3, requires_grad=True)
        # The write under no_grad is to a tensor that could be asked for its own gradient.
        x1 = ramp(3).requires_grad_().clone()
        compiled, _ = self.compile(operator)
        zeroed = ramp(3)
        (grad,) = torch.autograd.grad(self.compile(operator)[0](x, zeroed), x, ramp(3))
        self.assertEqual((grad, zeroed), (2 * ramp(3), torch.zeros(3)))
        loss = compiled(x, x1).sum()
        with self.assertRaisesRegex(
            RuntimeError,
            "aot_autograd does not support input mutations with requires_grad in backward for "
            "create_graph=True",
        ):
            torch.autograd.grad(loss, x, create_graph=True)
        self.assertEqual(x1, ramp(3))


if __name__ == "__main__":
    run_tests()
