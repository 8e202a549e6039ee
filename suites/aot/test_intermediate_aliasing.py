"""Outputs that alias each other through a tensor that the function made, and outputs that need no grad."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch._inductor.decomposition import select_decomp_table

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.aot.base import AotTestCase, ramp
from suites.aot.known import Known, expect


class IntermediateAliasingTest(AotTestCase):
    """Views of a tensor that is made in the function and perhaps returned as well."""

    def verify_views(self, function):
        """Verify a function of one 3 x 3 tensor whose outputs may be written to; the result with grad."""
        return self.verify_both(function, [ramp(3, 3)], test_mutation=True)

    def test_output_aliases_intermediate_single(self):
        def f(a):
            out = torch.mul(a, 3)
            return out.view(-1)

        self.assertExpectedGraph(
            self.verify_views(f).forward_text,
            """\
forward(primals_1)
  mul = aten.mul.Tensor(primals_1, 3)
  view = aten.view.default(mul, [-1])
  return (view,)""",
        )

    def test_output_aliases_intermediate_mutation_linear(self):
        def f(x):
            return (x + 1).view(-1)

        self.verify(
            f, [ramp(4, 4)], requires_grad=True, test_mutation=True, decompositions=select_decomp_table()
        )

    def test_output_aliases_intermediate_no_grad(self):
        def f(a, b):
            out = torch.mul(a, 3)
            return out.view(-1), b.add(1)

        for grad in (False, True):
            inputs = [ramp(3, 3), ramp(3, 3, start=20)]
            result = self.verify(f, inputs, requires_grad=[False, grad], test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2)
  mul = aten.mul.Tensor(primals_1, 3)
  view = aten.view.default(mul, [-1])
  add = aten.add.Tensor(primals_2, 1)
  return (view, add)""",
        )

    def test_output_aliases_intermediate_returned_multiple_times(self):
        def f(a):
            out = torch.mul(a, 3)
            return out, out.view(-1), out

        self.verify_views(f)

    def test_output_aliases_intermediate_multiple(self):
        def f(a):
            out = torch.mul(a, 3)
            return out.view(-1), out.view(-1)

        self.assertExpectedGraph(
            self.verify_views(f).forward_text,
            """\
forward(primals_1)
  mul = aten.mul.Tensor(primals_1, 3)
  view = aten.view.default(mul, [-1])
  view_1 = aten.view.default(mul, [-1])
  return (view, view_1, mul)""",
        )

    def test_output_aliases_intermediate_and_returned(self):
        def f(a):
            out = torch.mul(a, 3)
            return out.view(-1), out

        self.assertExpectedGraph(
            self.verify_views(f).forward_text,
            """\
forward(primals_1)
  mul = aten.mul.Tensor(primals_1, 3)
  view = aten.view.default(mul, [-1])
  return (view, mul)""",
        )

    def test_output_aliases_intermediate_and_returned_flipped(self):
        def f(a):
            out = torch.mul(a, 3)
            return out, out.view(-1)

        self.assertExpectedGraph(
            self.verify_views(f).forward_text,
            """\
forward(primals_1)
  mul = aten.mul.Tensor(primals_1, 3)
  view = aten.view.default(mul, [-1])
  return (mul, view)""",
        )

    def test_output_aliases_intermediate_and_returned_different_grad(self):
        def f(a):
            out = torch.mul(a, 3)
            return out.view(-1), out, out[0].detach()

        self.assertExpectedGraph(
            self.verify_views(f).forward_text,
            """\
forward(primals_1)
  mul = aten.mul.Tensor(primals_1, 3)
  view = aten.view.default(mul, [-1])
  select = aten.select.int(mul, 0, 0)
  detach = aten.detach.default(select)
  return (view, mul, detach)""",
        )

    def test_output_aliases_intermediate_inplace_view_and_view(self):
        def f(a):
            out = torch.mul(a, 3)
            before = out.unsqueeze(0)
            out.t_()
            return before, out, out.unsqueeze(0)

        self.verify(f, [ramp(3, 3)], requires_grad=False, test_mutation=True)

    @expect(
        Known(
            "",
            "MismatchError",
            "output 0: stride",
            "the view is made anew of a base that was transposed since",
        )
    )
    def test_output_aliases_intermediate_inplace_view_and_view_requires_grad(self):
        def f(a):
            out = torch.mul(a, 3)
            out.t_()
            return out.unsqueeze(0), out

        self.verify(f, [ramp(3, 3)], requires_grad=True)

    def test_output_aliases_intermediate_multiple_mixed(self):
        def f(a):
            out1, out2 = torch.mul(a, 3), torch.mul(a, 4)
            return out1.view(-1), out2.transpose(1, 0), out1.transpose(1, 0)

        self.assertExpectedGraph(
            self.verify_views(f).forward_text,
            """\
forward(primals_1)
  mul = aten.mul.Tensor(primals_1, 3)
  mul_1 = aten.mul.Tensor(primals_1, 4)
  view = aten.view.default(mul, [-1])
  transpose = aten.transpose.int(mul_1, 1, 0)
  transpose_1 = aten.transpose.int(mul, 1, 0)
  return (view, transpose, transpose_1, mul)""",
        )

    def test_composite_impl_compile(self):
        class Foo(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(3, 3)

            def forward(self, a):
                return self.linear(a)

        result = self.verify_views(Foo())
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2, primals_3)
  t = aten.t.default(primals_1)
  addmm = aten.addmm.default(primals_2, primals_3, t)
  return (addmm, primals_3, t)""",
        )


class OutputsWithoutGradTest(AotTestCase):
    """Outputs that take no part in the backward beside those that do."""

    def test_some_outputs_dont_require_grad_non_view(self):
        def f(a, b):
            return a.add(1).detach(), b

        self.verify(f, [torch.randn(3, 3), torch.randn(3, 3)], requires_grad=True)


if __name__ == "__main__":
    run_tests()
