"""What a function does to its inputs: writes of data and of metadata, in the graph or after it."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch._decomp import get_decompositions

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.aot.base import AotTestCase, TwoTensors, ramp

aten = torch.ops.aten


class InputMutationTest(AotTestCase):
    """Writes to inputs that a graph keeps, or that happen after it."""

    def test_input_mutation_simple(self):
        def f(a):
            a.mul_(2)
            return a * 3

        result = self.verify_both(f, [ramp(3, 3)], test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1)
  clone = aten.clone.default(primals_1)
  mul = aten.mul.Tensor(clone, 2)
  mul_1 = aten.mul.Tensor(mul, 3)
  return (mul, mul_1)""",
        )

    def test_input_mutation_multiple(self):
        def f(a, b, c):
            a.mul_(2)
            c.mul_(2)
            return a + b + c

        inputs = [ramp(3, 3), ramp(3, 3, start=10), ramp(3, 3, start=20)]
        result = self.verify_both(f, inputs, test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2, primals_3)
  clone = aten.clone.default(primals_1)
  clone_1 = aten.clone.default(primals_3)
  mul = aten.mul.Tensor(clone, 2)
  mul_1 = aten.mul.Tensor(clone_1, 2)
  add = aten.add.Tensor(mul, primals_2)
  add_1 = aten.add.Tensor(add, mul_1)
  return (mul, mul_1, add_1)""",
        )

    def test_input_mutation_return(self):
        def f(a, b):
            return torch.sin(a, out=b)

        inputs = [torch.randn(3, 3), ramp(3, 3)]
        result = self.verify(f, inputs, test_mutation=True, keep_input_mutations=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
inference(arg0_1, arg1_1)
  sin = aten.sin.default(arg0_1)
  copy_ = aten.copy_.default(arg1_1, sin)
  return (copy_,)""",
        )

    def test_written_inputs_are_returned_themselves(self):
        """A graph that writes into its inputs returns those, and no copy of what it has written."""

        def f(x, y, z):
            x.mul_(2)
            z.add_(1)
            return y.sin(), x, z

        compiled, capture = self.compile(f)
        x, z = torch.ones(3), torch.ones(3)
        outputs = compiled(x, torch.ones(3, requires_grad=True), z)
        self.assertEqual([outputs[1] is x, outputs[2] is z], [True, True])
        self.assertEqual([x, z], [torch.full((3,), 2.0), torch.full((3,), 2.0)])
        operations = [node.op for node in capture.graphs[0].outputs[:3]]
        self.assertEqual(operations, ["call_function", "placeholder", "placeholder"])

    def test_input_mutation_noncontiguous(self):
        def f(a):
            a.mul_(2)
            return a + 1

        def column(grad):
            base = ramp(2, 2).requires_grad_(grad)
            return [base], [base.add(1)[:, 0]]

        self.verify_both(f, column, test_mutation=True)
        # Backward from a written subclass argument is one of torch's known bugs.
        self.verify_both(f, column, test_mutation=True, subclasses=TwoTensors, mutation_gradients=False)

    def test_input_mutation_hidden_from_autograd_aliasing(self):
        def f(a):
            with torch.no_grad():
                a.view(-1).mul_(2)
            return a + 1

        inputs = [ramp(4).requires_grad_()]
        result = self.verify(f, inputs, test_mutation=True, keep_input_mutations=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1)
  view = aten.view.default(primals_1, [-1])
  mul = aten.mul.Tensor(view, 2)
  view_1 = aten.view.default(mul, [4])
  add = aten.add.Tensor(view_1, 1)
  copy_ = aten.copy_.default(primals_1, view_1)
  return (add,)""",
        )

    def test_input_mutation_batchnorm(self):
        def f(x, weight, bias, mean, variance):
            # What torch.nn.BatchNorm2d calls: it writes to mean and variance.
            return torch._native_batch_norm_legit(x, weight, bias, mean, variance, True, 0.5, 1e-5)

        inputs = [torch.randn(2, 5, 5, 5), ramp(5), ramp(5), ramp(5), ramp(5)]
        decompositions = get_decompositions(
            [aten._native_batch_norm_legit_functional, aten.native_batch_norm_backward]
        )
        for grad in (True, False):
            self.verify(
                f,
                inputs,
                requires_grad=[grad, grad, grad, False, False],
                test_mutation=True,
                decompositions=decompositions,
            )

    def test_batchnorm_inference(self):
        module = torch.nn.BatchNorm2d(4, 4).eval()
        compiled, capture = self.compile(module)
        x = torch.randn(4, 4, 4, 4)
        with torch.no_grad():
            self.assertEqual(compiled(x), module(x))
        (graph,) = capture.graphs
        self.assertEqual(graph.role, "inference")
        self.assertIn("batch_norm", graph.text)
        self.assertNotIn("copy_", graph.text)

    def test_new_inp_requires_grad_now(self):
        def f(x, y):
            return x.add_(y)

        inputs = [ramp(20, 100), ramp(20, 100, start=7)]
        result = self.verify(f, inputs, requires_grad=[False, True], keep_input_mutations=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2)
  clone = aten.clone.default(primals_1)
  add = aten.add.Tensor(clone, primals_2)
  return (add, add)""",
        )
        self.assertExpectedGraph(
            result.backward_text,
            """\
backward(tangents_1)
  return (None, tangents_1)""",
        )


class MetadataMutationTest(AotTestCase):
    """Inputs that are given other sizes and strides."""

    def test_input_mutation_metadata(self):
        def f(a, b):
            a.transpose_(1, 0)
            return a + b

        self.verify_both(f, [ramp(3, 3), ramp(3, 3, start=10)], test_mutation=True)

    def test_input_data_and_metadata_mutation(self):
        def f(a):
            a.t_()
            a[0].mul_(2)
            return a.view(a.shape)

        result = self.verify_both(f, [ramp(3, 3)], test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1)
  clone = aten.clone.default(primals_1)
  t = aten.t.default(clone)
  select = aten.select.int(t, 0, 0)
  mul = aten.mul.Tensor(select, 2)
  t_1 = aten.t.default(clone)
  select_scatter = aten.select_scatter.default(t_1, mul, 0, 0)
  t_2 = aten.t.default(select_scatter)
  t_4 = aten.t.default(t_2)
  t_6 = aten.t.default(t_2)
  view_1 = aten.view.default(t_6, [3, 3])
  return (t_4, view_1)""",
        )

    def test_input_data_and_metadata_mutation_aliases_other_input(self):
        def f(a, b):
            a.mul_(2)
            b.t_()
            return a.mul(b)

        def rows(grad):
            base = ramp(2, 2).requires_grad_(grad)
            x = base.add(1)
            return [base], [x[0], x[0]]

        self.verify_both(f, rows, test_mutation=True)
        for grad in (False, True):
            with self.assertRaisesRegex(
                RuntimeError, "Encountered aliased inputs that are mutated in the graph, but"
            ):
                self.verify(f, functools.partial(rows, grad), test_mutation=True, subclasses=TwoTensors)


class StorageMutationTest(AotTestCase):
    """Inputs whose storage is exchanged, or given up and taken back."""

    def test_set__and_data_mutation_bad(self):
        def f(a):
            view = a.view(-1)
            other = torch.ones(3, 3, requires_grad=True)
            with torch.no_grad():
                a.set_(other)
                view.mul_(2)
            return a + other

        with self.assertRaisesRegex(RuntimeError, "cannot mutate tensors with frozen storage"):
            self.verify(f, [ramp(3, 3).requires_grad_()], test_mutation=True, keep_input_mutations=True)

    def test_set__not_allowed(self):
        def f(a, b):
            with torch.no_grad():
                a.set_(b)
            # A write to data that came by set_ can be replayed on neither a nor b.
            a.mul_(2)
            return a + b

        inputs = [ramp(3, 3), ramp(3, 3, start=10)]
        with self.assertRaisesRegex(AssertionError, "but the input has other mutations that we cannot"):
            self.verify(f, inputs, requires_grad=True, test_mutation=True, keep_input_mutations=True)

    def test_input_mutation_set__nop(self):
        def f(a):
            b = torch.arange(9, dtype=a.dtype, device=a.device)
            before = aten.alias.default(a)
            with torch.no_grad():
                a.set_(b)
                a.set_(before)
            return a + b.reshape(3, 3)

        result = self.verify_both(f, [ramp(3, 3)], test_mutation=True, keep_input_mutations=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1)
  arange = aten.arange.default(9, dtype=float32, device=device0, pin_memory=False)
  alias = aten.alias.default(primals_1)
  view = aten.view.default(arange, [3, 3])
  add = aten.add.Tensor(alias, view)
  return (add,)""",
        )

    def test_input_mutation_storage_resize_up(self):
        def f(a):
            torch.ops.inductor.resize_storage_bytes_(a, 32)
            with torch.no_grad():
                a.copy_(torch.ones(8))
            return a + 1

        inputs = [torch.zeros(8, requires_grad=True)]
        inputs[0].untyped_storage().resize_(0)
        result = self.verify(f, inputs, keep_input_mutations=True, decompositions={})
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1)
  resize_storage_bytes_ = inductor.resize_storage_bytes_.default(primals_1, 32)
  ones = aten.ones.default([8], device=device0, pin_memory=False)
  copy = aten.copy.default(primals_1, ones)
  add = aten.add.Tensor(copy, 1)
  copy_ = aten.copy_.default(primals_1, copy)
  return (add,)""",
        )

    def test_input_mutation_storage_resize_down(self):
        def f(a):
            out = a.sin()
            torch.ops.inductor.resize_storage_bytes_(a, 0)
            return out

        inputs = [ramp(8).requires_grad_()]
        compiled, capture = self.compile(f)
        expected, out = f(*[a.detach().clone() for a in inputs]), compiled(*inputs)
        self.assertEqual(out, expected)
        self.assertEqual(inputs[0].untyped_storage().nbytes(), 0)
        self.assertExpectedGraph(
            capture.graphs[-1].text,
            """\
forward(primals_1)
  sin = aten.sin.default(primals_1)
  resize_storage_bytes_ = inductor.resize_storage_bytes_.default(primals_1, 0)
  return (sin, primals_1)""",
        )

    def test_input_mutation_storage_resize_down_and_set_(self):
        class SetFrom(torch.autograd.Function):
            @staticmethod
            def forward(ctx, placeholder, tensor):
                return placeholder.set_(tensor)

            @staticmethod
            def backward(ctx, grad):
                return None, grad

        def f(dummy, shard):
            # A sharded parameter: gathered, used under the unsharded name, and freed again.
            with torch.no_grad():
                whole = torch.cat([shard, shard])
            SetFrom.apply(dummy, whole)
            out = dummy.sin()
            torch.ops.inductor.resize_storage_bytes_(dummy, 0)
            return out

        def inputs():
            dummy = torch.zeros(16, requires_grad=True)
            dummy.untyped_storage().resize_(0)
            return dummy, ramp(8).requires_grad_()

        self.assertEqual(f(*inputs()), torch.cat([ramp(8)] * 2).sin())
        compiled, capture = self.compile(f)
        # The graph is there; its last line is refused when it runs, since set_ checks bounds.
        with self.assertRaisesRegex(RuntimeError, "are out of bounds for storage of size 0"):
            compiled(*inputs())
        self.assertExpectedGraph(
            capture.graphs[-1].text,
            """\
forward(primals_1, primals_2)
  cat = aten.cat.default([primals_2, primals_2])
  sin = aten.sin.default(cat)
  resize_storage_bytes_ = inductor.resize_storage_bytes_.default(cat, 0)
  set_ = aten.set_.source_Tensor(primals_1, cat)
  return (sin, cat)""",
        )


class WithCounter(torch.nn.Module):
    """Counts its calls in a buffer, and adds the count to a product of its parameters and the input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.w1 = torch.nn.Parameter(torch.tensor([2.0]))
        self.w2 = torch.nn.Parameter(torch.tensor([3.0]))

    def forward(self, x):
        self.count.add_(1)
        return (self.w1 * x * self.w2).sum() + self.count.sum()


class BufferMutationTest(AotTestCase):
    """Modules that write to their buffers."""

    def test_buffer_copied_in_graph(self):
        result = self.verify(
            WithCounter(), [torch.tensor([5.0], requires_grad=True)], keep_input_mutations=True
        )
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2, primals_3, primals_4)
  add = aten.add.Tensor(primals_3, 1)
  mul = aten.mul.Tensor(primals_1, primals_4)
  mul_1 = aten.mul.Tensor(mul, primals_2)
  sum_1 = aten.sum.default(mul_1)
  sum_2 = aten.sum.default(add)
  add_1 = aten.add.Tensor(sum_1, sum_2)
  copy_ = aten.copy_.default(primals_3, add)
  return (add_1, primals_1, primals_2, primals_4, mul)""",
        )

    def test_buffer_batch_norm(self):
        x = torch.randn(20, 100, requires_grad=True)
        result = self.verify(torch.nn.BatchNorm1d(100), [x], keep_input_mutations=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2, primals_3, primals_4, primals_5, primals_6)
  add = aten.add.Tensor(primals_5, 1)
  _native_batch_norm_legit_functional = aten._native_batch_norm_legit_functional.default(primals_6,
      primals_1, primals_2, primals_3, primals_4, True, 0.1, 1e-05)
  getitem = _native_batch_norm_legit_functional[0]
  getitem_1 = _native_batch_norm_legit_functional[1]
  getitem_2 = _native_batch_norm_legit_functional[2]
  getitem_3 = _native_batch_norm_legit_functional[3]
  getitem_4 = _native_batch_norm_legit_functional[4]
  copy_ = aten.copy_.default(primals_3, getitem_3)
  copy__1 = aten.copy_.default(primals_4, getitem_4)
  copy__2 = aten.copy_.default(primals_5, add)
  return (getitem, primals_1, primals_6, getitem_1, getitem_2, getitem_3, getitem_4)""",
        )
        self.assertExpectedGraph(
            result.backward_text,
            """\
backward(primals_1, primals_6, getitem_1, getitem_2, getitem_3, getitem_4, tangents_1)
  native_batch_norm_backward = aten.native_batch_norm_backward.default(tangents_1, primals_6,
      primals_1, getitem_3, getitem_4, getitem_1, getitem_2, True, 1e-05, [True, True, True])
  getitem_5 = native_batch_norm_backward[0]
  getitem_6 = native_batch_norm_backward[1]
  getitem_7 = native_batch_norm_backward[2]
  return (getitem_6, getitem_7, None, None, None, getitem_5)""",
        )


if __name__ == "__main__":
    run_tests()
