"""The same tensor given twice, and functions that are called with what they were not compiled for."""

from __future__ import annotations

import re
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import nop
from torch._functorch.aot_autograd import aot_module_simplified
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import AotFunction
from suites.aot.base import AotTestCase, ramp


class DuplicateArgumentsTest(AotTestCase):
    """One object in two places."""

    def test_dupe_arg(self):
        x = torch.randn(3, 3, requires_grad=True)
        self.verify(lambda x, y: x + y, [x, x])

    def test_dupe_arg_torture(self):
        def f(x, y):
            x.t_()
            y.unsqueeze_(0)
            return x + y

        # No leaf: its sizes are changed.
        x = torch.randn(3, 3, requires_grad=True).clone()
        self.verify(f, [x, x])

    def test_dupe_arg_returned_as_output(self):
        def f(a, b, a_):
            a[0].add_(1)
            return a_

        a, b = ramp(2), ramp(2, start=10)
        result = self.verify(f, [a, b, a])
        self.assertEqual(result.returned, torch.tensor([2.0, 2.0]))


class Transposes(torch.nn.Module):
    """Adds, after transposing the first argument in place."""

    def forward(self, x, y):
        x.t_()
        return (x + y,)


class Unsqueezes(torch.nn.Module):
    """Adds the second argument twice to the first, after giving both another dimension in place."""

    def forward(self, x, y):
        x.unsqueeze_(0)
        y.unsqueeze_(0)
        return (x + 2 * y,)


class Adds(torch.nn.Module):
    """Adds."""

    def forward(self, x, y):
        return (x + y,)


class AssumptionsTest(AotTestCase):
    """A function that is called with what it was not compiled for says so.

    Compiled by ``aot_module_simplified``: what calls it, dynamo for example, has to guard on its arguments.
    """

    def setUp(self):
        super().setUp()
        checked = torch._functorch.config.patch(debug_assert=True)
        checked.__enter__()
        self.addCleanup(checked.__exit__, None, None, None)

    def assumed(self, graph, assumption):
        """Expect the error that a graph's assumption does not hold; ``graph`` is its number in this test."""
        message = (
            f"At compilation time, graph {graph} was compiled under the assumption that {assumption}, but "
            "at runtime this was not the case.  This indicates a guard bug in AOTAutograd or Dynamo, please "
            "file a bug to PyTorch."
        )
        return self.assertRaisesRegex(AssertionError, f"^{re.escape(message)}$")

    def pair(self):
        """Two tensors that may be written to, made of ``leaves``."""
        self.leaves = [torch.randn(3, 3, requires_grad=True) for _ in "xy"]
        return tuple(leaf.clone() for leaf in self.leaves)

    def test_invalid_dupe_left_bias(self):
        x, y = self.pair()
        self.verify(Transposes(), [x, x], front_end=AotFunction())  # graphs 0 and 1
        compiled = aot_module_simplified(Transposes(), (x, x), nop)
        with self.assumed(2, "input 1 would be a duplicate of input 0"):
            compiled(x, y)

    def check_invalid_dupe(self, example):
        """Compile for two tensors, then for one twice; ``example`` makes arguments to compile for."""
        for_two = aot_module_simplified(Unsqueezes(), example(*self.pair()), nop)
        x, y = self.pair()
        self.check_sum(for_two, x, y, (1, 3, 3))
        # What takes two tensors takes one twice, though it then unsqueezes it once where eager does it twice.
        x, _ = self.pair()
        self.check_sum(for_two, x, x, (1, 3, 3))

        x, _ = self.pair()
        for_one = aot_module_simplified(Unsqueezes(), example(x, x), nop)
        self.check_sum(for_one, x, x, (1, 1, 3, 3))
        with self.assumed(1, "input 1 would be a duplicate of input 0"):
            for_one(*self.pair())

    def check_sum(self, compiled, x, y, shape):
        """Call a compiled sum, whose result and arguments are to be of ``shape``, and its backward."""
        expected = (x + 2 * y).detach().reshape(shape)
        (out,) = compiled(x, y)
        self.assertEqual(out, expected)
        self.assertEqual((x.shape, y.shape), (shape, shape))
        out.backward(ramp(*shape))
        gradients = [ramp(3, 3), 2 * ramp(3, 3)] if x is not y else [3 * ramp(3, 3), None]
        self.assertEqual([leaf.grad for leaf in self.leaves], gradients)

    def test_invalid_dupe(self):
        self.check_invalid_dupe(lambda *arguments: arguments)

    def test_invalid_dupe_fake(self):
        self.check_invalid_dupe(faked)

    def check_invalid_requires_grad(self, example):
        """Compile for gradients of both arguments, then of the first; ``example`` as above."""

        def leaves(*flags):
            return tuple(torch.randn(3, 3, requires_grad=flag) for flag in flags)

        for_both = aot_module_simplified(Adds(), example(*leaves(True, True)), nop)
        for_first = aot_module_simplified(Adds(), example(*leaves(True, False)), nop)
        for compiled, flags in (
            (for_both, (True, True)),
            (for_both, (True, False)),
            (for_first, (True, False)),
        ):
            x, y = leaves(*flags)
            (out,) = compiled(x, y)
            self.assertEqual(out, x.detach() + y.detach())
            out.backward(ramp(3, 3))
            self.assertEqual(x.grad, ramp(3, 3))
            self.assertEqual(y.grad, ramp(3, 3) if flags[1] else None)
        with self.assumed(1, "input 1 would not require grad"):
            for_first(*leaves(True, True))

    def test_invalid_requires_grad(self):
        self.check_invalid_requires_grad(lambda *arguments: arguments)

    def test_invalid_requires_grad_fake(self):
        self.check_invalid_requires_grad(faked)


def faked(*arguments):
    """Fake tensors with symbolic sizes for ``arguments``, one object for one object."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    return tuple(mode.from_tensor(argument) for argument in arguments)


if __name__ == "__main__":
    run_tests()
