"""Every kind of output alias at once, with and without grad, and with subclasses."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch

from harness import (  # noqa: F401  (unittest calls load_tests)
    instantiate_parametrized_tests,
    load_tests,
    parametrize,
    run_tests,
)
from suites.aot.base import AotTestCase, TwoTensors, ramp


class ViewOfInput(torch.autograd.Function):
    """A flat view of the input whose backward triples."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.view(-1)

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad.view(ctx.shape)


@instantiate_parametrized_tests
class AliasKindsTest(AotTestCase):
    """Views of inputs and of intermediates beside what is no alias."""

    def test_some_output_requires_grad_input_doesnt(self):
        def f(a, b):
            view = a.view(-1)
            view.requires_grad_(True)
            return view

        self.verify(f, [ramp(3, 3), ramp(3, 3, start=10)], requires_grad=[False, True])

    def test_some_outputs_dont_require_grad_view(self):
        def f(a, b):
            return a.detach(), b

        self.verify(f, [ramp(3, 3), ramp(3, 3, start=10)], requires_grad=True)

    def test_view_detach(self):
        def f(a):
            detached = a.detach()
            a.mul_(2)
            return a, detached

        self.verify_both(f, [ramp(3, 3)], test_mutation=True)

    def test_view_and_inplace_view(self):
        def f(a, b):
            a.t_()
            return b.view(b.shape), a.view(a.shape)

        inputs = [ramp(3, 3), ramp(3, 3, start=10)]
        self.verify(f, inputs, requires_grad=True, test_mutation=True)
        result = self.verify(f, inputs, requires_grad=False, test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
inference(arg0_1, arg1_1)
  t = aten.t.default(arg0_1)
  view = aten.view.default(arg1_1, [3, 3])
  view_1 = aten.view.default(t, [3, 3])
  return (t, view, view_1)""",
        )

    def test_input_output_aliase_custom_autograd_function(self):
        self.verify_both(ViewOfInput.apply, [ramp(2, 2)])

    def test_output_all_alias_types(self):
        result = self.verify_both(all_alias_types, transposed_inputs, test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1)
  view = aten.view.default(primals_1, [1, 2, 4])
  transpose = aten.transpose.int(view, 1, 0)
  mul = aten.mul.Tensor(transpose, 2)
  squeeze = aten.squeeze.default(mul)
  transpose_1 = aten.transpose.int(mul, 1, 0)
  unsqueeze = aten.unsqueeze.default(transpose, 0)
  return (transpose, squeeze, transpose_1, unsqueeze, mul)""",
        )

    @parametrize("req_grad", [False, True])
    def test_subclass_metadata_mutation(self, req_grad):
        def f(a):
            a.transpose_(1, 0)
            return 2 * a

        for function in (f, all_alias_types):
            with self.assertRaisesRegex(
                RuntimeError, "Metadata mutations are currently not allowed on tensor subclasses"
            ):
                self.verify(
                    function,
                    lambda: transposed_inputs(req_grad),
                    test_mutation=True,
                    subclasses=TwoTensors,
                )


def all_alias_types(a):
    """Outputs that alias an intermediate, twice, and an input whose metadata changed."""
    a.transpose_(1, 0)
    tmp = 2 * a
    return tmp.squeeze(), tmp.transpose(1, 0), a.unsqueeze(0)


def transposed_inputs(grad):
    base = ramp(1, 2, 4).requires_grad_(grad)
    return [base], [base.add(1)]


if __name__ == "__main__":
    run_tests()
