"""Cutting the joint graph: what forward saves for backward, sizes as numbers and not as tensors."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import (
    aot_function,
    aot_module,
    compiled_function,
    default_decompositions,
    default_partition,
    memory_efficient_fusion,
    min_cut_rematerialization_partition,
)
from torch import nn
from torch.nn import functional as F

from harness import load_tests, requires_cuda, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import Capture, compilers_of
from suites.aot.base import AotTestCase
from suites.aot.models import resnet18

aten = torch.ops.aten


def is_symbolic(nodes):
    """For each output of a graph, whether it is a symbolic number."""
    return [isinstance(node.meta["val"], torch.SymInt) for node in nodes]


def calls(graph, operator):
    return len(graph.module.graph.find_nodes(op="call_function", target=operator))


def leaves(*shapes):
    return [torch.randn(*shape, requires_grad=True) for shape in shapes]


class TestPartitioning(AotTestCase):
    def cut(self, f, *inputs, partitioner=min_cut_rematerialization_partition, dynamic=False, loss=torch.sum):
        """Compile ``f`` and run it forward and backward; gives (compiled, forward graph, backward graph).

        The gradient is that of ``loss(f(*inputs))``, and is compared with eager's.
        """
        capture = Capture()
        compilers = capture.around(compilers_of("nop"))
        compiled = aot_function(
            f,
            compilers.forward,
            compilers.backward,
            partition_fn=partitioner,
            decompositions=default_decompositions,
            dynamic=dynamic,
        )
        self.same_gradients(compiled, f, *inputs, loss=loss)
        self.assertEqual([graph.role for graph in capture.graphs], ["forward", "backward"])
        return compiled, *capture.graphs

    def same_gradients(self, compiled, f, *inputs, loss=torch.sum, **tolerance):
        found, expected = compiled(*inputs), f(*inputs)
        self.assertEqual(found, expected, exact_stride=True, **tolerance)
        self.assertEqual(
            torch.autograd.grad(loss(found), inputs), torch.autograd.grad(loss(expected), inputs), **tolerance
        )

    def sizes(self, *graphs):
        """How many inputs and outputs each graph has."""
        return [(len(graph.placeholders), len(graph.outputs)) for graph in graphs]

    def test_recompute_partitioning(self):
        capture = Capture()
        compilers = capture.around(compilers_of("nop"))
        compiled = compiled_function(
            lambda a, b: torch.sin(torch.sin(a)) + b,
            compilers.forward,
            compilers.backward,
            min_cut_rematerialization_partition,
        )
        inputs = [torch.rand(10, 10, requires_grad=True) for _ in range(2)]
        self.same_gradients(compiled, lambda a, b: torch.sin(torch.sin(a)) + b, *inputs, atol=1e-3, rtol=1e-3)
        forward, backward = capture.graphs
        # Only `a` is saved; the inner sine, which its cosine is taken of, is computed again.
        self.assertExpectedGraph(
            forward.text,
            """\
forward(primals_1, primals_2)
  sin = aten.sin.default(primals_1)
  sin_1 = aten.sin.default(sin)
  add = aten.add.Tensor(sin_1, primals_2)
  return (add, primals_1)""",
        )
        self.assertExpectedGraph(
            backward.text,
            """\
backward(primals_1, tangents_1)
  sin = aten.sin.default(primals_1)
  cos = aten.cos.default(sin)
  mul = aten.mul.Tensor(tangents_1, cos)
  cos_1 = aten.cos.default(primals_1)
  mul_1 = aten.mul.Tensor(mul, cos_1)
  return (mul_1, tangents_1)""",
        )

    def test_meta_tensor_inplace_op(self):
        class Linear(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(12, 8))
                self.bias = nn.Parameter(torch.randn(12))

            def forward(self, rows):
                return F.gelu(F.linear(rows, self.weight, self.bias))

        described = []

        def needs_metadata(gm, _):
            described.extend(
                (node.name, "tensor_meta" in node.meta) for node in gm.graph.nodes if node.op != "output"
            )
            return gm

        module, rows = Linear(), torch.randn(4, 3, 8, requires_grad=True)
        self.assertEqual(aot_module(module, needs_metadata)(rows), module(rows))
        self.assertEqual([name for name, has in described if not has], [])
        self.assertIn("gelu", [name for name, _ in described])

    def test_default_partitioner_getitem(self):
        def normed(x, weight, bias):
            return F.layer_norm(x, [10], weight, bias, eps=1e-6)

        _, forward, backward = self.cut(normed, *leaves((3, 10), (10,), (10,)), partitioner=default_partition)
        self.assertEqual(self.sizes(forward, backward), [(3, 6), (6, 3)])
        # Mean and deviation are saved as two tensors, not as the tuple that the operator returns.
        self.assertExpectedGraph(
            forward.text,
            """\
forward(primals_1, primals_2, primals_3)
  native_layer_norm = aten.native_layer_norm.default(primals_1, [10], primals_2, primals_3, 1e-06)
  getitem = native_layer_norm[0]
  getitem_1 = native_layer_norm[1]
  getitem_2 = native_layer_norm[2]
  return (getitem, primals_1, primals_2, primals_3, getitem_1, getitem_2)""",
        )

    def test_min_cut_partitioner_save_shape(self):
        def row_sums(x):
            return x.sum(dim=1)

        x = torch.ones(10, 10, requires_grad=True)
        compiled, forward, backward = self.cut(row_sums, x, dynamic=True)
        self.assertEqual(self.sizes(forward, backward), [(1, 3), (3, 1)])
        # The sizes are saved, not the larger tensor that has them.
        self.assertExpectedGraph(
            forward.text,
            """\
forward(primals_1)
  sum_1 = aten.sum.dim_IntList(primals_1, [1])
  sym_size_int = aten.sym_size.int(primals_1, 0)
  sym_size_int_1 = aten.sym_size.int(primals_1, 1)
  return (sum_1, sym_size_int, sym_size_int_1)""",
        )
        self.same_gradients(compiled, row_sums, torch.randn(4, 7, requires_grad=True))

        def stacked(a, b, c):
            rows = aten.sym_size(b)[0] + c.size()[0]
            return torch.cat([a.expand((rows, a.size(0))), b, c])

        compiled, forward, backward = self.cut(stacked, *leaves((10,), (3, 10), (2, 10)), dynamic=True)
        self.assertEqual(self.sizes(forward, backward), [(3, 4), (4, 3)])
        self.assertEqual(is_symbolic(forward.outputs), [False, True, True, True])
        self.same_gradients(compiled, stacked, *leaves((7,), (4, 7), (1, 7)))

    def check_shape_outputs(self, partitioner):
        """Cut a function that returns tensors and a size; gives the two graphs."""

        def products(a, b, c, d):
            rows = aten.sym_size(b)[0] + c.size()[0]
            stacked = torch.cat([a.expand((rows, a.size(0))), b, c])
            column = torch.mm(stacked, d)
            row = torch.mm(column, a.view(1, a.size(0)))
            return stacked, b.size(), c, row

        def loss(outputs):
            stacked, _, c, row = outputs
            return stacked.sum() + (c * c).sum() + row.sum()

        compiled, forward, backward = self.cut(
            products,
            *leaves((10,), (3, 10), (2, 10), (10, 1)),
            partitioner=partitioner,
            dynamic=True,
            loss=loss,
        )
        inputs = leaves((7,), (4, 7), (1, 7), (7, 1))
        self.same_gradients(compiled, products, *inputs, loss=loss)
        self.assertIsInstance(products(*inputs)[1], torch.Size)
        self.assertNotIsInstance(compiled(*inputs)[1], torch.Size)
        return forward, backward

    def test_default_partitioner_output_tensor_shape_tensor(self):
        forward, backward = self.check_shape_outputs(default_partition)
        self.assertEqual(self.sizes(forward, backward), [(4, 13), (10, 4)])
        self.assertEqual(
            is_symbolic(forward.outputs), [False, True, True, False, False, *4 * [False], *4 * [True]]
        )

    def test_min_cut_partitioner_output_tensor_shape_tensor(self):
        forward, backward = self.check_shape_outputs(min_cut_rematerialization_partition)
        self.assertEqual(self.sizes(forward, backward), [(4, 12), (9, 4)])
        self.assertEqual(
            is_symbolic(forward.outputs), [False, True, True, False, False, *4 * [False], *3 * [True]]
        )

    def test_min_cut_partitioner(self):
        def cosines(x):
            return x.cos().cos().cos()

        _, forward, backward = self.cut(cosines, *leaves((3,)))
        self.assertEqual(self.sizes(forward, backward), [(1, 2), (2, 1)])
        # All of forward is computed again from its input: cheaper than to save what is between.
        self.assertEqual([calls(graph, aten.cos.default) for graph in (forward, backward)], [3, 2])

        def cosines_of_sum(a, b, c, d):
            return (a + b + c + d).cos().cos()

        _, forward, backward = self.cut(cosines_of_sum, *leaves((3,), (3,), (3,), (3,)))
        # One sum is saved, not four summands.
        self.assertEqual(self.sizes(forward, backward), [(4, 2), (2, 4)])
        self.assertEqual([calls(graph, aten.add.Tensor) for graph in (forward, backward)], [3, 0])

    def test_contiguous(self):
        def transposed(x):
            return x.view(2, 3).t()

        x, gradient = torch.randn(6, requires_grad=True), torch.randn(3, 2)
        compiled, capture = self.compile(transposed)
        result = compiled(x)
        self.assertEqual(result.stride(), (1, 3))
        self.assertEqual(torch.autograd.grad(result, x, gradient), (gradient.t().reshape(6),))
        # A view of an input has its gradient from the view, so that there is no graph for it.
        self.assertEqual([graph.role for graph in capture.graphs], ["inference"])

    def test_preserve_random(self):
        def dropped(x):
            return F.dropout(x, 0.5) + x

        capture = Capture()
        compiled = aot_function(dropped, capture.around(compilers_of("nop")).forward)
        x = torch.randn(40)
        results = []
        for seed in (0, 1):
            torch.manual_seed(seed)
            expected = dropped(x)
            torch.manual_seed(seed)
            results.append(compiled(x))
            self.assertEqual(results[-1], expected)
        self.assertNotEqual(*results)
        self.assertEqual(len(capture.graphs), 1)

    def test_generate_gives_inference_graph(self):
        # pytorch issue 110666: no output requires grad, so there is nothing to save for a backward.
        def doubled(x):
            with torch.no_grad():
                return x * 2

        capture = Capture()
        compilers = capture.around(compilers_of("nop"))
        compiled = aot_function(
            doubled, compilers.forward, compilers.backward, inference_compiler=compilers.inference
        )
        x = torch.randn(3, requires_grad=True)
        self.assertEqual(compiled(x), x.detach() * 2)
        self.assertEqual([graph.role for graph in capture.graphs], ["inference"])

    @requires_cuda
    def test_autocast(self):
        network = resnet18().cuda().train()
        images = torch.randn(16, 3, 32, 32, device="cuda")
        compiled = memory_efficient_fusion(network)
        with torch.autocast("cuda"):
            scores = compiled(images)
        self.assertIs(scores.dtype, torch.float16)
        scores.sum().backward()
        for parameter in network.parameters():
            self.assertTrue(parameter.grad.isfinite().all())


if __name__ == "__main__":
    run_tests()
