"""A plain tensor beside a wrapper subclass: what becomes of their parts, and of gradients guessed wrong.

The graphs know no subclass: a ``TwoTensor`` is two inputs, and two outputs.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch._functorch.config
from torch.testing._internal.two_tensor import TwoTensor

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import AotFunction, Capture, Compilation, compilers_of
from suites.aot.base import ramp, two_tensors
from suites.aot.refusals import plain_guess, subclass_guess
from suites.aot.subclass_base import SubclassTestCase, parts

METADATA_MUTATION = "Metadata mutations are currently not allowed on tensor subclasses"

#: The tangent of a written subclass input is taken for a plain tensor of zeros unless this is set.
tangents_of_written_inputs = torch._functorch.config.patch(
    disable_guess_zero_tangent_for_mutated_input_subclass=True
)


def both():
    """A plain tensor and a subclass tensor, leaves that require grad, and what is computed from them."""
    a, b = ramp(3, 3).requires_grad_(), two_tensors(ramp(3, 3, start=10)).requires_grad_()
    return (a, b), (a + 1, b + 1)


class TestAOTDispatch(SubclassTestCase):
    def compiled(self, f):
        """``f`` compiled with the partitioner that recomputes, and what captures its graphs."""
        capture = Capture()
        return AotFunction().compile(f, Compilation(capture.around(compilers_of("aot_eager")))), capture

    def check(self, f, make, loss):
        """Compare ``f`` with eager: outputs, arguments afterwards, gradients of ``loss(arguments, outputs)``.

        ``make()`` gives leaves and arguments. What captured the graphs is returned.
        """
        compiled, capture = self.compiled(f)
        expected_leaves, expected_arguments = make()
        leaves, arguments = make()
        expected, found = f(*expected_arguments), compiled(*arguments)
        self.same_tensors(found, expected)
        self.same_tensors(arguments, expected_arguments)
        loss(expected_arguments, expected).backward()
        loss(arguments, found).backward()
        self.same_tensors([leaf.grad for leaf in leaves], [leaf.grad for leaf in expected_leaves])
        self.assertEqual([graph.role for graph in capture.graphs], ["joint", "forward", "backward"])
        return capture.graphs[1].text, capture.graphs[2].text

    def test_aot_dispatch_simple(self):
        def f(a, b):
            return (a * 6 + b / 2,)

        def make():
            leaves = two_tensors(ramp(3, 3)).requires_grad_(), ramp(3, 3, start=10).requires_grad_()
            return leaves, leaves

        forward, backward = self.check(f, make, lambda arguments, outputs: (outputs[0] * outputs[0]).sum())
        self.assertExpectedGraph(
            forward,
            """\
forward(primals_1, primals_2, primals_3)
  mul = aten.mul.Tensor(primals_1, 6)
  mul_1 = aten.mul.Tensor(primals_2, 6)
  div = aten.div.Tensor(primals_3, 2)
  add = aten.add.Tensor(mul, div)
  add_1 = aten.add.Tensor(mul_1, div)
  return (add, add_1)""",
        )
        self.assertExpectedGraph(
            backward,
            """\
backward(tangents_1, tangents_2)
  div_1 = aten.div.Tensor(tangents_1, 2)
  div_2 = aten.div.Tensor(tangents_2, 2)
  mul_2 = aten.mul.Tensor(tangents_1, 6)
  mul_3 = aten.mul.Tensor(tangents_2, 6)
  return (mul_2, mul_3, div_1, div_2)""",
        )
        # The plain tensor met a subclass on the way, so its gradient is one.
        compiled, _ = self.compiled(f)
        (_, b), arguments = make()
        compiled(*arguments)[0].sum().backward()
        self.assertIsInstance(b.grad, TwoTensor)

    def test_aot_dispatch_incorrect_backward(self):
        def f(a, b):
            return (2 * a) / (b + 3), b + b

        def make():
            return two_tensors(ramp(3, 3)).requires_grad_(), ramp(3, 3, start=10).requires_grad_()

        compiled, _ = self.compiled(f)
        arguments = make()
        found = compiled(*arguments)
        self.same_tensors(found, f(*make()))
        # The second output is plain, so its gradient was guessed to be plain.
        with self.refused(RuntimeError, *plain_guess(TwoTensor, "torch.Size([3, 3])")):
            (found[0] + found[1]).sum().backward()
        # A gradient of its own for each output is what was guessed.
        expected_arguments = make()
        expected = f(*expected_arguments)
        for outputs in (compiled(*arguments), expected):
            outputs[0].sum().backward(retain_graph=True)
        self.same_tensors([each.grad for each in arguments], [each.grad for each in expected_arguments])

    def test_aot_dispatch_output_alias(self):
        def f(a, b):
            return b.view(b.shape), a * b

        def make():
            leaves = ramp(3, 3).requires_grad_(), two_tensors(ramp(3, 3, start=10)).requires_grad_()
            return leaves, leaves

        forward, backward = self.check(f, make, lambda _, outputs: (outputs[0] * outputs[1]).sum())
        self.assertExpectedGraph(
            forward,
            """\
forward(primals_1, primals_2, primals_3)
  view = aten.view.default(primals_2, [3, 3])
  view_1 = aten.view.default(primals_3, [3, 3])
  mul = aten.mul.Tensor(primals_1, primals_2)
  mul_1 = aten.mul.Tensor(primals_1, primals_3)
  return (view, view_1, mul, mul_1, primals_1, primals_2, primals_3)""",
        )
        self.assertExpectedGraph(
            backward,
            """\
backward(primals_1, primals_2, primals_3, tangents_1, tangents_2)
  mul_2 = aten.mul.Tensor(tangents_1, primals_1)
  mul_3 = aten.mul.Tensor(tangents_2, primals_1)
  mul_4 = aten.mul.Tensor(tangents_1, primals_2)
  mul_5 = aten.mul.Tensor(tangents_2, primals_3)
  return (mul_4, mul_5, mul_2, mul_3)""",
        )
        compiled, _ = self.compiled(f)
        (_, b), arguments = make()
        alias, _ = compiled(*arguments)
        self.assertIs(alias._base, b)
        self.assertEqual([each.data_ptr() for each in parts(alias)], [each.data_ptr() for each in parts(b)])

    def test_aot_dispatch_input_mutation(self):
        def f(a, b):
            a.mul_(2)
            b.mul_(3)
            return (a + b,)

        def through_input(arguments, outputs):
            return (arguments[1] * outputs[0]).sum()

        def through_output(arguments, outputs):
            return (outputs[0] * outputs[0]).sum()

        with self.refused(RuntimeError, *plain_guess(TwoTensor, "torch.Size([3, 3])")):
            self.check(f, both, through_input)
        forward, backward = self.check(f, both, through_output)
        self.assertExpectedGraph(
            forward,
            """\
forward(primals_1, primals_2, primals_3)
  clone = aten.clone.default(primals_1)
  clone_1 = aten.clone.default(primals_2)
  clone_2 = aten.clone.default(primals_3)
  mul = aten.mul.Tensor(clone, 2)
  mul_1 = aten.mul.Tensor(clone_1, 3)
  mul_2 = aten.mul.Tensor(clone_2, 3)
  add = aten.add.Tensor(mul, mul_1)
  add_1 = aten.add.Tensor(mul, mul_2)
  return (mul, mul_1, mul_2, add, add_1)""",
        )
        self.assertExpectedGraph(
            backward,
            """\
backward(tangents_1, tangents_2, tangents_3, tangents_4)
  add_2 = aten.add.Tensor(tangents_1, tangents_3)
  add_3 = aten.add.Tensor(tangents_1, tangents_4)
  add_4 = aten.add.Tensor(tangents_2, tangents_3)
  add_5 = aten.add.Tensor(tangents_2, tangents_4)
  mul_3 = aten.mul.Tensor(add_4, 3)
  mul_4 = aten.mul.Tensor(add_5, 3)
  mul_5 = aten.mul.Tensor(add_2, 2)
  mul_6 = aten.mul.Tensor(add_3, 2)
  return (mul_5, mul_6, mul_3, mul_4)""",
        )
        with tangents_of_written_inputs:
            forward_then, backward = self.check(f, both, through_input)
            self.assertEqual(forward_then, forward)
            self.assertExpectedGraph(
                backward,
                """\
backward(tangents_1, tangents_2, tangents_3, tangents_4, tangents_5)
  add_2 = aten.add.Tensor(tangents_1, tangents_4)
  add_3 = aten.add.Tensor(tangents_1, tangents_5)
  add_4 = aten.add.Tensor(tangents_2, tangents_4)
  add_5 = aten.add.Tensor(tangents_3, tangents_5)
  mul_3 = aten.mul.Tensor(add_4, 3)
  mul_4 = aten.mul.Tensor(add_5, 3)
  mul_5 = aten.mul.Tensor(add_2, 2)
  mul_6 = aten.mul.Tensor(add_3, 2)
  return (mul_5, mul_6, mul_3, mul_4)""",
            )
            with self.refused(
                RuntimeError, *subclass_guess(TwoTensor, tangent=1, of="input_mutation(args[1])")
            ):
                self.check(f, both, through_output)

    def refuses_metadata_mutation(self, f):
        compiled, capture = self.compiled(f)
        with self.refused(RuntimeError, METADATA_MUTATION):
            compiled(*both()[1])
        self.assertEqual(capture.graphs, [])
        # Between plain tensors the same writes are fine.
        _, (a, _) = both()
        self.assertEqual(compiled(a, ramp(3, 3) + 1), f(both()[1][0], ramp(3, 3) + 1))

    def test_aot_dispatch_input_metadata_mutation(self):
        def f(a, b):
            a.t_()
            b.unsqueeze_(0)
            return a + b

        self.refuses_metadata_mutation(f)

    def test_aot_dispatch_input_data_and_metadata_mutation(self):
        def f(a, b):
            a.t_()
            b.unsqueeze_(0)
            a.mul_(2)
            b.mul_(3)
            return a + b

        self.refuses_metadata_mutation(f)

    def test_aot_dispatch_input_mutation_and_output_alias(self):
        def f(a, b):
            a.mul_(2)
            b.mul_(3)
            return b.view(b.shape), a + b

        def loss(arguments, outputs):
            return (outputs[0] * outputs[1]).sum()

        with self.refused(RuntimeError, *plain_guess(TwoTensor, "torch.Size([3, 3])")):
            self.check(f, both, loss)
        with tangents_of_written_inputs:
            forward, backward = self.check(f, both, loss)
        self.assertExpectedGraph(
            forward,
            """\
forward(primals_1, primals_2, primals_3)
  clone = aten.clone.default(primals_1)
  clone_1 = aten.clone.default(primals_2)
  clone_2 = aten.clone.default(primals_3)
  mul = aten.mul.Tensor(clone, 2)
  mul_1 = aten.mul.Tensor(clone_1, 3)
  mul_2 = aten.mul.Tensor(clone_2, 3)
  add = aten.add.Tensor(mul, mul_1)
  add_1 = aten.add.Tensor(mul, mul_2)
  view_2 = aten.view.default(mul_1, [3, 3])
  view_3 = aten.view.default(mul_2, [3, 3])
  return (mul, mul_1, mul_2, view_2, view_3, add, add_1)""",
        )
        self.assertExpectedGraph(
            backward,
            """\
backward(tangents_1, tangents_2, tangents_3, tangents_4, tangents_5)
  add_2 = aten.add.Tensor(tangents_1, tangents_4)
  add_3 = aten.add.Tensor(tangents_1, tangents_5)
  add_4 = aten.add.Tensor(tangents_2, tangents_4)
  add_5 = aten.add.Tensor(tangents_3, tangents_5)
  mul_3 = aten.mul.Tensor(add_4, 3)
  mul_4 = aten.mul.Tensor(add_5, 3)
  mul_5 = aten.mul.Tensor(add_2, 2)
  mul_6 = aten.mul.Tensor(add_3, 2)
  return (mul_5, mul_6, mul_3, mul_4)""",
        )


if __name__ == "__main__":
    run_tests()
