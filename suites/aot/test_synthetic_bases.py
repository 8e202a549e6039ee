"""Arguments that alias each other, of which the function writes to one: the compiler makes a base for them.

In the graphs the first placeholder is that base; the arguments are ``as_strided`` views of it.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.aot.base import AotTestCase, TwoTensors, ramp


def base_and_argument(*shape, grad, start=1.0):
    """A leaf, and a tensor computed from it that a function may write to."""
    base = ramp(*shape, start=start).requires_grad_(grad)
    return base, base.add(1)


class SyntheticBasesTest(AotTestCase):
    """What is written through one argument shows in the others."""

    def test_input_mutation_false_aliasing(self):
        def f(a, b):
            a.mul_(3)
            b.mul_(2)
            return a.clone().view(-1) + b.clone().view(-1)

        def halves(grad):
            # One storage, no overlap: neither is to be taken for an alias of the other.
            base, x = base_and_argument(4, 4, grad=grad)
            return [base], [x[0:2], x[2:4]]

        self.verify(f, functools.partial(halves, True), test_mutation=True)
        result = self.verify(f, functools.partial(halves, False), test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
inference(arg0_1, arg1_1)
  mul = aten.mul.Tensor(arg0_1, 3)
  mul_1 = aten.mul.Tensor(arg1_1, 2)
  clone = aten.clone.default(mul)
  view = aten.view.default(clone, [-1])
  clone_1 = aten.clone.default(mul_1)
  view_1 = aten.view.default(clone_1, [-1])
  add = aten.add.Tensor(view, view_1)
  return (mul, mul_1, add)""",
        )
        # Backward from a written subclass argument is one of torch's known bugs.
        self.verify_both(f, halves, test_mutation=True, subclasses=TwoTensors, mutation_gradients=False)

    def test_input_mutation_aliases_other_input(self):
        def f(a, b):
            a.add_(1)
            return a + b

        def same_row(grad):
            base, x = base_and_argument(4, 2, grad=grad)
            return [base], [x[0], x[0]]

        result = self.verify_both(f, same_row, test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1)
  clone = aten.clone.default(primals_1)
  as_strided = aten.as_strided.default(clone, [2], [1], 0)
  add = aten.add.Tensor(as_strided, 1)
  as_strided_scatter = aten.as_strided_scatter.default(clone, add, [2], [1], 0)
  as_strided_2 = aten.as_strided.default(as_strided_scatter, [2], [1], 0)
  as_strided_5 = aten.as_strided.default(as_strided_scatter, [2], [1], 0)
  add_1 = aten.add.Tensor(as_strided_2, as_strided_5)
  return (as_strided_scatter, add_1)""",
        )

    def test_input_mutation_aliases_other_input2(self):
        def f(a, b):
            a.add_(1)
            return a + b

        def row_and_base(grad):
            base, x = base_and_argument(2, 2, grad=grad)
            return [base], [x[0], x]

        result = self.verify_both(f, row_and_base, test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1)
  clone = aten.clone.default(primals_1)
  as_strided = aten.as_strided.default(clone, [2], [1], 0)
  add = aten.add.Tensor(as_strided, 1)
  as_strided_scatter = aten.as_strided_scatter.default(clone, add, [2], [1], 0)
  as_strided_2 = aten.as_strided.default(as_strided_scatter, [2], [1], 0)
  as_strided_5 = aten.as_strided.default(as_strided_scatter, [2, 2], [2, 1], 0)
  add_1 = aten.add.Tensor(as_strided_2, as_strided_5)
  return (as_strided_scatter, add_1)""",
        )

    def test_input_mutation_aliases_and_output_alias(self):
        def f(a, b):
            a.add_(1)
            return b.view(b.shape)

        def twice_flat(grad):
            base, x = base_and_argument(2, 2, grad=grad)
            return [base], [x.view(-1), x.view(-1)]

        result = self.verify_both(f, twice_flat, test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1)
  clone = aten.clone.default(primals_1)
  as_strided = aten.as_strided.default(clone, [4], [1], 0)
  add = aten.add.Tensor(as_strided, 1)
  as_strided_scatter = aten.as_strided_scatter.default(clone, add, [4], [1], 0)
  as_strided_9 = aten.as_strided.default(as_strided_scatter, [4], [1], 0)
  view_1 = aten.view.default(as_strided_9, [4])
  return (as_strided_scatter, view_1)""",
        )

    def test_input_aliased_with_mutation_output_alias(self):
        def f(a, b, c):
            c.mul_(2)
            # The output of c aliases a as well.
            return b.add(1), c.view(-1)

        def two_of_three(grad):
            base1, x = base_and_argument(2, 2, grad=grad)
            base2, y = base_and_argument(2, 2, grad=grad, start=10)
            return [base1, base2], [x.view(-1), y.view(-1), x.view(-1)]

        result = self.verify_both(f, two_of_three, test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2)
  clone = aten.clone.default(primals_1)
  as_strided_1 = aten.as_strided.default(clone, [4], [1], 0)
  mul = aten.mul.Tensor(as_strided_1, 2)
  as_strided_scatter = aten.as_strided_scatter.default(clone, mul, [4], [1], 0)
  add = aten.add.Tensor(primals_2, 1)
  as_strided_7 = aten.as_strided.default(as_strided_scatter, [4], [1], 0)
  view_1 = aten.view.default(as_strided_7, [-1])
  return (as_strided_scatter, add, view_1)""",
        )

    def test_input_mutation_aliases_and_none_require_gradients(self):
        def f(a, b, c):
            a.mul_(2)
            return b + 1, c + 1

        def aliases_without_grad(grad):
            base, x = base_and_argument(2, 2, grad=False)
            c = ramp(2, 2, start=10).requires_grad_(grad)
            return [base, c], [x.view(-1), x.view(-1), c]

        with self.assertRaisesRegex(RuntimeError, "is a tensor subclass. This is not supported today"):
            self.verify(
                f,
                functools.partial(aliases_without_grad, False),
                test_mutation=True,
                subclasses=TwoTensors,
            )
        result = self.verify_both(f, aliases_without_grad, test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2)
  as_strided = aten.as_strided.default(primals_1, [4], [1], 0)
  mul = aten.mul.Tensor(as_strided, 2)
  as_strided_scatter = aten.as_strided_scatter.default(primals_1, mul, [4], [1], 0)
  as_strided_3 = aten.as_strided.default(as_strided_scatter, [4], [1], 0)
  add = aten.add.Tensor(as_strided_3, 1)
  add_1 = aten.add.Tensor(primals_2, 1)
  return (as_strided_scatter, add, add_1)""",
        )

    def test_input_mutation_aliases_bases_out_of_order(self):
        def f(a, b, c, d):
            b.add_(1)
            d.unsqueeze_(0)
            return a + c + d, b.view(-1)

        def second_and_fourth(grad):
            base1 = ramp(4).requires_grad_(grad)
            base2, x2 = base_and_argument(2, 2, grad=grad, start=10)
            return [base1, base2], [base1.add(1), x2.view(-1), base1.add(1), x2.view(-1)]

        result = self.verify_both(f, second_and_fourth, test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2, primals_3)
  clone = aten.clone.default(primals_1)
  as_strided = aten.as_strided.default(clone, [4], [1], 0)
  add = aten.add.Tensor(as_strided, 1)
  as_strided_scatter = aten.as_strided_scatter.default(clone, add, [4], [1], 0)
  as_strided_5 = aten.as_strided.default(as_strided_scatter, [4], [1], 0)
  unsqueeze = aten.unsqueeze.default(as_strided_5, 0)
  add_1 = aten.add.Tensor(primals_2, primals_3)
  add_2 = aten.add.Tensor(add_1, unsqueeze)
  as_strided_14 = aten.as_strided.default(as_strided_scatter, [4], [1], 0)
  view_2 = aten.view.default(as_strided_14, [-1])
  return (as_strided_scatter, add_2, view_2, unsqueeze)""",
        )

    def test_input_mutation_alias_everything(self):
        def f(a, b, c):
            c.mul_(2)  # data of an alias
            b.t_()  # metadata
            tmp = a + c
            out = tmp.view(-1)
            # Views of what was made here and of an input; the third aliases the first.
            return out, b.t(), out.unsqueeze(0)

        def first_and_third(grad):
            base1, x = base_and_argument(2, 2, grad=grad)
            base2, b = base_and_argument(2, 2, grad=grad, start=10)
            return [base1, base2], [x.view(-1), b, x.view(-1)]

        result = self.verify_both(f, first_and_third, test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2)
  clone = aten.clone.default(primals_1)
  view = aten.view.default(primals_2, [2, 2])
  as_strided_1 = aten.as_strided.default(clone, [4], [1], 0)
  mul = aten.mul.Tensor(as_strided_1, 2)
  as_strided_scatter = aten.as_strided_scatter.default(clone, mul, [4], [1], 0)
  as_strided_2 = aten.as_strided.default(as_strided_scatter, [4], [1], 0)
  t = aten.t.default(view)
  as_strided_5 = aten.as_strided.default(as_strided_scatter, [4], [1], 0)
  add = aten.add.Tensor(as_strided_5, as_strided_2)
  view_1 = aten.view.default(add, [-1])
  t_1 = aten.t.default(t)
  unsqueeze = aten.unsqueeze.default(view_1, 0)
  return (as_strided_scatter, t, view_1, t_1, unsqueeze, add)""",
        )


if __name__ == "__main__":
    run_tests()
