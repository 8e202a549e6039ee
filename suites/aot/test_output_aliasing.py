"""Outputs that are views of inputs: they share its memory, and autograd knows it, as in eager."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch._dynamo.config
from functorch.compile import aot_function, make_boxed_func
from torch._dynamo.testing import CompileCounterWithBackend

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import torch_at_least
from harness.targets import Capability, needs
from suites.aot.base import TwoTensors, ramp
from suites.aot.refusals import RefusalTestCase

MULTI_OUTPUT_VIEW = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the "
    "output views to be modified inplace. You should replace the inplace operation by an out-of-place one."
)
# As Python's autograd functions are called in autograd's messages.
NODE = "CompiledFunction" if torch_at_least("2.13") else "CompiledFunctionBackward"
MODIFIED = f"Output 0 of {NODE} is a view and is being modified inplace. {MULTI_OUTPUT_VIEW}"
BASE_MODIFIED = (
    f"Output 0 of {NODE} is a view and its base or another view of its base has been modified "
    f"inplace. {MULTI_OUTPUT_VIEW}"
)


class NoViewReplayTensor(torch.Tensor):
    """A tensor that does not know what it is a view of, so that the view cannot be made again."""

    @property
    def _base(self):
        return None

    @property
    def _view_func(self):
        return None


def squares(count):
    """A maker of ``count`` different 2 x 2 matrices."""
    return [ramp(2, 2, start=10.0 * place + 1) for place in range(count)]


class OutputAliasingTest(RefusalTestCase):
    """Views of inputs that are written to, or not."""

    def test_input_output_view_simple(self):
        result = self.verify_both(lambda a: a.view(-1), squares(1), test_mutation=True)
        # A view of an input needs no backward graph, as it is made again outside of the graph.
        self.assertExpectedGraph(
            result.forward_text,
            """\
inference(arg0_1)
  view = aten.view.default(arg0_1, [-1])
  return (view,)""",
        )

    def test_input_output_view_mutate_multiple(self):
        def f(a, b, c):
            a.mul_(2)
            c.mul_(3)
            return b.view(2, 2), c.view(2, 2)

        result = self.verify_both(f, squares(3), test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2, primals_3)
  clone = aten.clone.default(primals_1)
  clone_1 = aten.clone.default(primals_3)
  mul = aten.mul.Tensor(clone, 2)
  mul_1 = aten.mul.Tensor(clone_1, 3)
  view = aten.view.default(primals_2, [2, 2])
  view_2 = aten.view.default(mul_1, [2, 2])
  return (mul, mul_1, view, view_2)""",
        )

    def test_input_output_view_metadata_mutate_multiple(self):
        def f(a, b, c):
            b.mul_(3)
            c.t_()
            return a.view(2, 2), b.view(2, 2), c.view(2, 2)

        result = self.verify_both(f, squares(3), test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2, primals_3)
  clone = aten.clone.default(primals_2)
  view = aten.view.default(primals_3, [2, 2])
  mul = aten.mul.Tensor(clone, 3)
  t = aten.t.default(view)
  view_1 = aten.view.default(primals_1, [2, 2])
  view_3 = aten.view.default(t, [2, 2])
  view_4 = aten.view.default(mul, [2, 2])
  return (mul, t, view_1, view_4, view_3)""",
        )

    def test_input_mutation_and_output_view(self):
        def f(a):
            a.add_(1)
            return a.view(-1)

        result = self.verify_both(f, squares(1), test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1)
  clone = aten.clone.default(primals_1)
  add = aten.add.Tensor(clone, 1)
  view_1 = aten.view.default(add, [-1])
  return (add, view_1)""",
        )

    def test_input_mutation_output_view_multiple(self):
        def f(a, b, c, d):
            b.transpose_(1, 0)
            c.add_(1)
            return d + 1, b.diagonal(), a + c

        result = self.verify_both(f, squares(4), test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2, primals_3, primals_4)
  view = aten.view.default(primals_2, [2, 2])
  clone = aten.clone.default(primals_3)
  transpose = aten.transpose.int(view, 1, 0)
  add = aten.add.Tensor(clone, 1)
  add_1 = aten.add.Tensor(primals_4, 1)
  diagonal = aten.diagonal.default(transpose)
  add_2 = aten.add.Tensor(primals_1, add)
  return (transpose, add, add_1, diagonal, add_2)""",
        )

    def test_output_aliases_multiple_inputs_get_correct_one(self):
        def f(a, b):
            return a.view(a.shape), b.view(b.shape)

        def two_views(grad):
            base = ramp(2, 2).requires_grad_(grad)
            x = base.mul(2)
            return [base], [x.view(-1), x[0]]

        self.verify_both(f, two_views, test_mutation=True)
        self.verify_both(f, two_views, test_mutation=True, subclasses=TwoTensors)


class MultiOutputViewTest(RefusalTestCase):
    """Views that autograd knows to have siblings, and what may be done with them."""

    def test_output_aliases_input_multi_output_view_should_raise_autograd_error(self):
        def rows():
            x = ramp(3, 3).requires_grad_().clone()
            compiled, _ = self.compile(lambda a: list(a.unbind(0)))
            return x, compiled(x)

        _, outputs = rows()
        with self.refused(RuntimeError, MODIFIED):
            outputs[0].mul_(2)
        x, outputs = rows()
        x.mul_(2)
        with self.refused(RuntimeError, BASE_MODIFIED):
            _ = outputs[0].grad_fn
        _, outputs = rows()
        outputs[0].detach().mul_(2)
        with self.refused(RuntimeError, BASE_MODIFIED):
            _ = outputs[0].grad_fn

    def names(self, outputs):
        return [type(output.grad_fn).__name__ for output in outputs]

    def test_output_aliases_input_multi_output_view(self):
        def rows(a):
            return list(a.unbind(0))

        def rows_and_columns(a):
            return *a.unbind(0), *a.unbind(1)

        # Where all outputs have siblings, they are what the graph returns.
        for f in (rows, rows_and_columns):
            compiled, _ = self.compile(f)
            x, other = ramp(3, 3).requires_grad_(), ramp(3, 3).requires_grad_()
            outputs, expected = compiled(x), f(other)
            self.assertEqual(self.names(outputs), ["CompiledFunctionBackward"] * len(expected))
            for row, eager in zip(outputs, expected, strict=True):
                self.assertIs(row._base, x)
                self.assertEqual(row, eager, exact_stride=True)
            self.assertEqual(
                torch.autograd.grad([*outputs], x, [*expected]),
                torch.autograd.grad(expected, other, [*expected]),
            )

        # Beside another view, which may be written to, they are made again from the input.
        def rows_and_all(a):
            return *a.unbind(0), a.view(a.shape)

        compiled, _ = self.compile(rows_and_all)
        gradients = []
        for f in (compiled, rows_and_all):
            leaf = ramp(3, 3).requires_grad_()
            x = leaf.clone()
            outputs = f(x)
            self.assertEqual(self.names(outputs), ["UnbindBackward0"] * 3 + ["ViewBackward0"])
            outputs[-1].mul_(2)
            x.view(-1).mul_(3)
            total = x + outputs[-1]
            self.assertEqual(total, 12 * leaf)
            gradients += torch.autograd.grad((total * total).sum(), leaf)
        self.assertEqual(*gradients)


class ViewReplayTest(RefusalTestCase):
    """Views that are made again outside of the graph from what they are recorded to be."""

    def setUp(self):
        super().setUp()
        self.runs = 0

    def compile_and_erase_bases(self, *indices):
        """A decorator that compiles; outputs of the graph at ``indices`` do not know their base."""

        def compiler(graph, _):
            def run(*arguments):
                self.runs += 1
                outputs = list(graph(*arguments))
                for index in indices:
                    outputs[index] = outputs[index].as_subclass(NoViewReplayTensor)
                return outputs

            return make_boxed_func(run)

        return lambda f: aot_function(f, compiler)

    def is_view(self, output, base, backward="ViewBackward0"):
        self.assertEqual(type(output.grad_fn).__name__, backward)
        self.assertEqual(output.untyped_storage().data_ptr(), base.untyped_storage().data_ptr())
        self.assertIs(type(output), torch.Tensor)
        self.assertEqual(self.runs, 1, "runs of the graph")

    def test_output_aliases_input_view_meta_replay(self):
        @self.compile_and_erase_bases(0)
        def f(a):
            return a.view(-1)

        x = ramp(2, 2).requires_grad_()
        result = f(x)
        self.is_view(result, x)
        self.assertIs(result._base, x)

    def test_output_aliases_intermediate_view_meta_replay(self):
        @self.compile_and_erase_bases(0, 1)
        def f(a):
            b = a.clone()
            return b.view(-1), b.view(-1)

        first, second = f(ramp(2, 2).requires_grad_())
        self.is_view(first, second)
        self.is_view(second, first)
        self.assertIs(first._base, second._base)
        self.assertEqual(first, ramp(4))

    def test_output_aliases_output_view_meta_replay(self):
        @self.compile_and_erase_bases(1)
        def f(a):
            b = a + 10
            return b, b.view(-1)

        base, view = f(ramp(2, 2).requires_grad_())
        self.is_view(view, base)
        self.assertIs(view._base, base)
        base.mul_(2)
        self.assertEqual(view, 2 * ramp(4, start=11.0))

    @needs(Capability.INDUCTOR)
    def test_dynamic_output_aliases_input_view_meta_replay(self):
        counter = CompileCounterWithBackend("inductor")
        x = ramp(2, 2).requires_grad_()
        with torch._dynamo.config.patch(assume_static_by_default=False):
            compiled = torch.compile(lambda a, size: (a.view(size), a.view(-1)), backend=counter)
            sized, flat = compiled(x, (4,))
        # With symbolic sizes a view is not made again but strided.
        self.runs = counter.frame_count
        self.is_view(sized, x, "AsStridedBackward0")
        self.is_view(flat, x)
        self.assertEqual((sized, flat), (x.view(4), x.view(4)))


if __name__ == "__main__":
    run_tests()
