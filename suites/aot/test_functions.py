"""Plain functions: what goes in and comes out, when each graph is compiled, gradients taken inside."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch._functorch.config
from functorch.compile import (
    aot_function,
    get_aot_compilation_context,
    make_boxed_func,
    min_cut_rematerialization_partition,
)
from torch.multiprocessing.reductions import StorageWeakRef

from harness import load_tests, requires_cuda, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.aot.base import AotTestCase, ramp


def unchanged(graph, _):
    """A compiler that has nothing to do."""
    return make_boxed_func(graph)


class FunctionTest(AotTestCase):
    """Inputs and outputs of every kind."""

    def test_non_tensor_and_none_inputs(self):
        result = self.verify_both(lambda a, b, c: a * c, [2, None, ramp(3, 3)])
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2, primals_3)
  mul = aten.mul.Tensor(primals_3, 2)
  return (mul,)""",
        )

    def test_single_output(self):
        result = self.verify_both(lambda a, b: a + b, [torch.randn(3, 3), torch.randn(3, 3)])
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2)
  add = aten.add.Tensor(primals_1, primals_2)
  return (add,)""",
        )
        result = self.verify(
            lambda a, b: a + b, [torch.randn(3, 3), torch.randn(3, 3)], requires_grad=[True, False]
        )
        # Only one gradient is computed.
        self.assertExpectedGraph(
            result.backward_text,
            """\
backward(tangents_1)
  return (tangents_1, None)""",
        )

    def test_multi_output(self):
        result = self.verify_both(lambda a, b: (a + b, a - b), [torch.randn(3, 3), torch.randn(3, 3)])
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2)
  add = aten.add.Tensor(primals_1, primals_2)
  sub = aten.sub.Tensor(primals_1, primals_2)
  return (add, sub)""",
        )

    def test_multi_output_list(self):
        result = self.verify_both(lambda a, b: [a + b, a - b], [torch.randn(3, 3), torch.randn(3, 3)])
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2)
  add = aten.add.Tensor(primals_1, primals_2)
  sub = aten.sub.Tensor(primals_1, primals_2)
  return (add, sub)""",
        )

    def test_output_dict(self):
        def pair(x, y):
            return {"a": x, "b": y + x}

        def doubled(tensors):
            return {name: tensor * 2 for name, tensor in tensors.items()}

        result = self.verify(lambda x: {"a": x, "b": x}, [ramp(3, 3)], requires_grad=True)
        self.assertIs(result.returned["a"], result.returned["b"])
        self.verify(pair, [ramp(3), ramp(3, start=5)], requires_grad=[True, False])
        result = self.verify(doubled, [{"a": ramp(3), "b": ramp(3, start=5)}], requires_grad=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2)
  mul = aten.mul.Tensor(primals_1, 2)
  mul_1 = aten.mul.Tensor(primals_2, 2)
  return (mul, mul_1)""",
        )

    def test_squeeze_mutation(self):
        def f(a):
            b = a.clone().squeeze(-1)
            b.add_(1.0)
            return a + b

        result = self.verify_both(f, [ramp(3, 1)], dynamic=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1)
  clone = aten.clone.default(primals_1)
  squeeze = aten.squeeze.dim(clone, -1)
  add = aten.add.Tensor(squeeze, 1.0)
  unsqueeze = aten.unsqueeze.default(add, 1)
  squeeze_1 = aten.squeeze.dim(unsqueeze, -1)
  add_1 = aten.add.Tensor(primals_1, squeeze_1)
  sym_size_int = aten.sym_size.int(primals_1, 0)
  return (add_1, sym_size_int)""",
        )

    def test_list_codegen(self):
        received = []

        def list_compiler(graph, _):
            def run(arguments):
                received.append(type(arguments))
                return graph(*arguments)

            run._boxed_call = True
            return run

        def f(a, b, c):
            return a.sin() * b.cos() * c.sin()

        inputs = [torch.randn(5), torch.randn(5), torch.randn(5)]
        self.verify(f, inputs, requires_grad=True, backend=list_compiler, keep_input_mutations=True)
        # Forward and backward of both calls of every run got their arguments in a list, which they can clear.
        self.assertEqual(received, [list, list] * 2 * self.front_end.runs)

    def test_inner_grad(self):
        def f(x):
            y = torch.exp(x)
            return torch.autograd.grad(y, x)

        result = self.verify(f, [torch.randn(())], requires_grad=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
inference(arg0_1)
  exp = aten.exp.default(arg0_1)
  detach = aten.detach.default(exp)
  ones_like = aten.ones_like.default(exp, pin_memory=False, memory_format=preserve_format)
  detach_1 = aten.detach.default(detach)
  mul = aten.mul.Tensor(ones_like, detach_1)
  return (mul,)""",
        )

    def test_custom_autograd(self):
        class PlusOneBack(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                return gradient + 1

        result = self.verify_both(PlusOneBack.apply, [torch.randn(3)])
        self.assertExpectedGraph(
            result.backward_text,
            """\
backward(tangents_1)
  add = aten.add.Tensor(tangents_1, 1)
  return (add,)""",
        )

    def test_output_op_depending_on_symint(self):
        # A symbolic size was tied to a tensor of the backward once, and compiling raised.
        def compiler_of_inductor(joint, inputs, **options):
            return min_cut_rematerialization_partition(joint, inputs, compiler="inductor", **options)

        result = self.verify(
            lambda x: x.expand(x.shape),
            [torch.randn(5)],
            requires_grad=True,
            dynamic=True,
            partitioner=compiler_of_inductor,
        )
        self.assertExpectedGraph(
            result.forward_text,
            """\
inference(arg0_1)
  sym_size_int = aten.sym_size.int(arg0_1, 0)
  expand = aten.expand.default(arg0_1, [sym_size_int])
  return (expand,)""",
        )

    def test_default_partitioner_saves_symints_not_tensors_for_bw(self):
        def f(a):
            row = torch.select(a, 0, 0)
            mask = torch.ones_like(row, dtype=torch.bool)
            row.masked_fill_(mask, 0.0)
            return row

        def inputs():
            leaf = ramp(2, 2).requires_grad_()
            return [leaf], [leaf.clone()]

        # The input is written to, so backward may not need it: its sizes are enough. The mask is given to
        # backward for good, which then cannot be run twice, as the verifier does.
        with torch._functorch.config.patch(donated_buffer=False):
            result = self.verify(f, inputs, dynamic=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1)
  clone = aten.clone.default(primals_1)
  select = aten.select.int(clone, 0, 0)
  ones_like = aten.ones_like.default(select, dtype=bool, pin_memory=False)
  masked_fill = aten.masked_fill.Scalar(select, ones_like, 0.0)
  select_scatter = aten.select_scatter.default(clone, masked_fill, 0, 0)
  select_1 = aten.select.int(select_scatter, 0, 0)
  sym_size_int = aten.sym_size.int(primals_1, 0)
  sym_size_int_1 = aten.sym_size.int(primals_1, 1)
  sym_stride_int = aten.sym_stride.int(primals_1, 0)
  return (select_scatter, select_1, ones_like, sym_size_int, sym_size_int_1, sym_stride_int)""",
        )
        self.assertExpectedGraph(
            result.backward_text,
            """\
backward(sym_size_int, sym_size_int_1, sym_stride_int, ones_like, tangents_1)
  new_empty_strided = aten.new_empty_strided.default(tangents_1, [sym_size_int, sym_size_int_1],
      [sym_stride_int, 1])
  copy = aten.copy.default(new_empty_strided, tangents_1)
  select_4 = aten.select.int(copy, 0, 0)
  clone_1 = aten.clone.default(select_4, memory_format=contiguous_format)
  masked_fill_1 = aten.masked_fill.Scalar(clone_1, ones_like, 0)
  copy_1 = aten.copy.default(select_4, masked_fill_1)
  select_scatter_1 = aten.select_scatter.default(copy, copy_1, 0, 0)
  return (select_scatter_1,)""",
        )

    def test_mem_leak_from_save_for_bw(self):
        self.check_nothing_kept("cpu")

    @requires_cuda
    def test_mem_leak_from_save_for_bw_cuda(self):
        self.check_nothing_kept("cuda")

    def check_nothing_kept(self, device):
        """Drop what a compiled function returned: nothing that its graph returned lives on."""

        def f(a, b):
            _, half = torch.split(a + a, [4, 4], dim=1)
            return half.unsqueeze(-1) * b, half

        memory = []

        def remembering(graph, _):
            def run(*arguments):
                outputs = graph(*arguments)
                memory.extend(StorageWeakRef(each.untyped_storage()) for each in outputs)
                return outputs

            return make_boxed_func(run)

        compiled = aot_function(f, remembering)
        shapes = ((8, 8), (1, 4, 1))
        inputs = [torch.ones(shape, device=device, requires_grad=True) for shape in shapes]
        mine = {StorageWeakRef(each.untyped_storage()) for each in inputs}
        before = torch.cuda.memory_allocated() if device == "cuda" else 0
        results = compiled(*inputs)
        self.assertGreater(len({ref for ref in memory if not ref.expired()} - mine), 1)
        del results
        self.assertEqual({ref for ref in memory if not ref.expired()} - mine, set())
        if device == "cuda":
            self.assertEqual(torch.cuda.memory_allocated(), before)


class CompilationTest(AotTestCase):
    """When a graph is compiled, and what a compiler is told."""

    def test_grad_context(self):
        node_counts = []

        def backward_compiler(graph, _):
            node_counts.append(len(graph.graph.nodes))
            return make_boxed_func(graph)

        compiled = aot_function(lambda x: x * 2, unchanged, backward_compiler)
        x = torch.randn((), requires_grad=True)
        with torch.no_grad():
            compiled(x)
        self.assertEqual(node_counts, [])
        compiled = aot_function(lambda x: x * 2, unchanged, backward_compiler)
        result = compiled(x)
        # Backward is compiled when it is first run.
        self.assertEqual(node_counts, [])
        result.sum().backward()
        self.assertEqual(node_counts, [3])
        self.assertEqual(x.grad, torch.tensor(2.0))

    def test_compilation_context(self):
        contexts = []

        def compiler(graph, _):
            contexts.append((get_aot_compilation_context()[0], len(graph.graph.nodes)))
            return make_boxed_func(graph)

        def f(x):
            return x.sin().sin()

        first = aot_function(f, compiler, compiler)(torch.randn(5, requires_grad=True))
        aot_function(f, compiler, compiler)(torch.randn(5))
        first.sum().backward()
        self.assertEqual(contexts, [(["0_forward"], 4), (["1_inference"], 4), (["0_backward"], 8)])
        # Outside of a compilation there is no context.
        self.assertEqual(get_aot_compilation_context()[0], [])


if __name__ == "__main__":
    run_tests()
