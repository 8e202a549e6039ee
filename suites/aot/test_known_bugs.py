"""What torch gets wrong: the smallest programs for it, each expected to fail in one way.

Most were found by random programs (``test_view_programs``), which leave them out. A test that passes says
that torch has been mended: then it belongs among the others, and what leaves it out there goes.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.aot.base import AotTestCase, ramp, two_tensors
from suites.aot.known import Known, expect


def fails(error, message, why):
    """A test that is known to fail so; its name stands for itself."""
    return expect(Known("", error, message, why))


class SilentlyWrongTest(AotTestCase):
    """Compiled functions that do something else, without a word."""

    @fails("Differs", "output 0: stride", "the view is made anew of a base that was transposed since")
    def test_view_of_transposed_intermediate(self):
        def f(a):
            out = a * 3
            out.t_()
            return out.unsqueeze(0), out

        self.verify(f, [ramp(3, 3)], requires_grad=True)

    @fails(
        "Differs",
        r"gradient of input 0 \(a\) through the output: values differ: at \[0\] 0.0 compiled, 0.25 in eager",
        "the write after the graph is not under no_grad, and so cuts the gradient off",
    )
    def test_write_under_no_grad(self):
        def f(a):
            with torch.no_grad():
                a[0] = 7
            return a

        self.verify(f, [ramp(3)], requires_grad=True, test_mutation=True, keep_input_mutations=False)

    @fails(
        "Differs",
        "output 2: values differ",
        "an output's index is looked up among the inputs when arguments share a base",
    )
    def test_views_of_intermediate_beside_shared_arguments(self):
        def f(a, b):
            a.mul_(2)
            product = a * b
            return a.view(2, 2), product, product.t()

        self.verify(f, same_view_twice, debug_assert=False)

    @fails(
        "Differs", "input 0 .a.: storage_offset 0 compiled, 2 in eager", "the offset is the graph's output's"
    )
    def test_data_and_metadata_of_view(self):
        def f(a):
            a.mul_(2)
            a.t_()
            return a + 1

        base = ramp(3, 2)
        # Compiled, the write lands at the start of the base's storage.
        self.verify(f, [base[1:]])

    @fails(
        "Differs", "input 0 .a.: shape .3,. compiled, .1, 4. in eager", "one argument gets the other's sizes"
    )
    def test_metadata_beside_returned_argument(self):
        def f(a, b):
            b.zero_()
            a.unsqueeze_(0)
            return b

        self.verify(f, [ramp(4), ramp(3)], keep_input_mutations=True)

    @fails("Differs", "the output: values differ", "the view is made anew of the base, not of the argument")
    def test_view_of_shared_argument(self):
        def f(a, b):
            a.add_(100)
            return b[0]

        def inputs():
            base = ramp(3, 2).requires_grad_()
            x = base * 1
            return [base], [x, x[1:]]

        self.verify(f, inputs, debug_assert=False)

    # torch 2.11 returns the other argument in its place.
    @fails(
        "Differs",
        "the output: is the object of .* compiled, input 0 .a. in eager",
        "arguments that share a base are views of it",
    )
    def test_identity_of_shared_argument(self):
        def f(a, b):
            b.zero_()
            return a

        x = ramp(2, 2)
        self.verify(f, [x.view(-1), x], debug_assert=False)


class RefusedTest(AotTestCase):
    """Functions that do not compile, or not with the compiler's own assertions."""

    @fails("AssertionError", "expected len.user_mutated_inputs_raw.", "counts writes that are in the graph")
    def test_assertion_on_writes_with_and_without_grad(self):
        def f(a, b):
            with torch.no_grad():
                a.zero_()
            b.mul_(2)
            return a + b

        self.verify(f, [ramp(3), ramp(3)], requires_grad=True, test_mutation=True, keep_input_mutations=True)

    @fails("AssertionError", "ref_metadata|outs_to_grad length", "a shared base's writes are counted twice")
    def test_two_writes_through_shared_base(self):
        def f(a, b, c):
            a.zero_()
            c.mul_(2)
            return b * 1

        def inputs():
            base = ramp(4).requires_grad_()
            x = base * 1
            return [base], [x.view(-1), x.view(-1), x.t()]

        self.verify(f, inputs)

    @fails("AssertionError", "as_strided_scatter was invalid, but is output", "its offset is a symbol")
    def test_symbolic_sizes_of_shared_base(self):
        def f(a, b):
            b.mul_(2)
            return a * 3

        def inputs():
            base = ramp(3).requires_grad_()
            x = base * 1
            return [base], [x[1:], x[1:]]

        self.verify(f, inputs, dynamic=True)

    @fails("ValueError", "Cannot view a tensor with shape", "the view is made of what was transposed since")
    def test_view_taken_before_transposition(self):
        def f(a):
            view = a.view_as(a)
            a.t_()
            return view

        self.verify(f, [ramp(2, 3)], requires_grad=True, test_mutation=True)

    @fails("AssertionError", "does not yet handle non-differentiable view input mutations", "as it says")
    def test_write_to_detached_alias(self):
        def f(a, b):
            b.mul_(2)
            return a * 1

        def inputs():
            base = ramp(4)
            x = base * 1
            return [base], [x[1:], x.detach()]

        self.verify(f, inputs)

    @fails(
        "RuntimeError",
        "guessed its\nmetadata incorrectly",
        "a written subclass argument's gradient is taken for a plain tensor",
    )
    def test_backward_from_written_subclass(self):
        def f(a):
            a.mul_(2)
            return a + 1

        self.verify(f, [ramp(3)], requires_grad=True, test_mutation=True, subclasses=two_tensors)


def same_view_twice():
    base = ramp(4).requires_grad_()
    x = base * 1
    return [base], [x.view(2, 2), x.view(2, 2)]


if __name__ == "__main__":
    run_tests()
