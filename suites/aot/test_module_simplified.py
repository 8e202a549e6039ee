"""``aot_module_simplified``, the entry for ``torch.compile``'s back ends: guards, stack traces, errors."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import aot_module_simplified
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Tracer
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import Capture, Compilation, compilers_of
from suites.aot.refusals import RefusalTestCase


class LinearPlus(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(20, 30)

    def forward(self, x, y):
        return (self.linear(x) + y,)


class LinearPlusRelu(LinearPlus):
    def forward(self, x, y):
        scores = self.linear(x)
        scores = scores + y
        scores = scores.relu()
        return (scores,)


class DoublesFirstRow(nn.Module):
    def forward(self, x):
        row = x[0]
        row.mul_(2)
        return (x + x,)


def rows(count=128, *, requires_grad=True):
    return [torch.randn(count, width, requires_grad=requires_grad) for width in (20, 30)]


def traced(module):
    """The graph of ``module`` as users write it, each node with the stack it came from."""
    tracer = Tracer()
    tracer.record_stack_traces = True
    return GraphModule(module, tracer.trace(module))


class TestAOTModuleSimplified(RefusalTestCase):
    def compile_simplified(self, module, inputs, **options):
        """``module`` compiled on ``inputs``, and what captured its graphs."""
        capture = Capture()
        how = Compilation(capture.around(compilers_of("nop")), **options)
        return aot_module_simplified(module, inputs, **how.arguments), capture

    def same_training(self, module, compiled, inputs):
        """Compare output and gradients, of inputs and parameters, with those of a copy of ``module``."""
        eager, others = copy.deepcopy(module), [each.detach().clone().requires_grad_() for each in inputs]
        module.zero_grad()
        (expected,), (found,) = eager(*others), compiled(*inputs)
        self.assertEqual(found, expected, exact_stride=True)
        weight = torch.randn_like(expected)
        (expected * weight).sum().backward()
        (found * weight).sum().backward()
        leaves, expected_leaves = [*inputs, *module.parameters()], [*others, *eager.parameters()]
        self.assertEqual(
            [each.grad for each in leaves], [each.grad for each in expected_leaves], exact_stride=True
        )

    def roles(self, capture):
        return [graph.role for graph in capture.graphs]

    def test_aot_module_simplified(self):
        module, inputs = LinearPlus(), rows()
        compiled, capture = self.compile_simplified(module, inputs)
        self.assertEqual(self.roles(capture), ["joint", "forward"])
        self.same_training(module, compiled, inputs)
        self.assertEqual(self.roles(capture), ["joint", "forward", "backward"])
        self.assertExpectedGraph(
            capture.graphs[1].text,
            """\
forward(primals_1, primals_2, primals_3, primals_4)
  t = aten.t.default(primals_1)
  addmm = aten.addmm.default(primals_2, primals_3, t)
  add = aten.add.Tensor(addmm, primals_4)
  return (add, primals_3, t)""",
        )
        self.assertExpectedGraph(
            capture.graphs[2].text,
            """\
backward(primals_3, t, tangents_1)
  t_1 = aten.t.default(t)
  mm = aten.mm.default(tangents_1, t_1)
  t_2 = aten.t.default(tangents_1)
  mm_1 = aten.mm.default(t_2, primals_3)
  t_3 = aten.t.default(mm_1)
  sum_1 = aten.sum.dim_IntList(tangents_1, [0], True)
  view = aten.view.default(sum_1, [30])
  t_4 = aten.t.default(t_3)
  return (t_4, view, mm, tangents_1)""",
        )
        with self.refused(RuntimeError, "Graph output must be a (). This is so that we can avoid pytree"):
            self.compile_simplified(nn.Linear(20, 30), inputs[:1])

    def test_aot_module_simplified_dynamic(self):
        shapes = ShapeEnv()
        fake = FakeTensorMode(shape_env=shapes)
        module, inputs = LinearPlus(), rows()
        fakes = [fake.from_tensor(each) for each in inputs]
        # The names of the symbols are made by a hash.
        (_, width), (_, out_width) = [[str(size) for size in each.shape] for each in fakes]
        compiled, capture = self.compile_simplified(module, fakes)
        # The module's weight fixes the widths; the number of rows is free.
        self.assertEqual(shapes.format_guards(), f" - Eq({width}, 20)\n - Eq({out_width}, 30)")
        for count in (128, 64):
            self.same_training(module, compiled, rows(count))
        self.assertEqual(self.roles(capture), ["joint", "forward", "backward"])

    def test_lift_fresh_copy_in_graph(self):
        # pytorch issue 105327
        class TimesConstant(nn.Module):
            def __init__(self):
                super().__init__()
                self.constant = torch.tensor([3])

            def forward(self, x):
                return (x * torch.ops.aten.lift_fresh_copy.default(self.constant),)

        fake = FakeTensorMode(shape_env=ShapeEnv())
        compiled, capture = self.compile_simplified(
            TimesConstant(), [fake.from_tensor(torch.ones(4, requires_grad=True))]
        )
        x = torch.randn(4, requires_grad=True)
        (found,) = compiled(x)
        self.assertEqual(found.detach(), x.detach() * 3)
        found.sum().backward()
        self.assertEqual(x.grad, torch.full((4,), 3.0))
        self.assertExpectedGraph(
            capture.graphs[1].text,
            """\
forward(primals_1)
  _tensor_constant0 = self._tensor_constant0
  lift_fresh_copy = aten.lift_fresh_copy.default(_tensor_constant0)
  mul = aten.mul.Tensor(primals_1, lift_fresh_copy)
  return (mul, lift_fresh_copy)""",
        )

    def test_inference_python_dispatcher(self):
        class Doubled(nn.Module):
            def __init__(self):
                super().__init__()
                self.upsample = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)

            def forward(self, images):
                return (self.upsample(images),)

        images = torch.randn(2, 8, 40, 59)
        compiled, capture = self.compile_simplified(Doubled(), [FakeTensorMode().from_tensor(images)])
        self.assertEqual(self.roles(capture), ["inference"])
        (found,) = compiled(images)
        self.assertEqual(found, Doubled()(images)[0])
        # Decomposed, as nothing but a Python implementation does it: four corners are gathered.
        (graph,) = capture.graphs
        corners = graph.module.graph.find_nodes(
            op="call_function", target=torch.ops.aten._unsafe_index.Tensor
        )
        self.assertEqual(len(corners), 4)

    # -- stack traces

    def sources(self, graph):
        """For each call of a graph the line of this file that it comes from."""
        found = {}
        for node in graph.nodes:
            if node.op not in ("placeholder", "output"):
                where, source, *_ = node.stack_trace.splitlines()
                self.assertIn(f'File "{__file__}"', where)
                found[node.name] = source.strip()
        return found

    def test_aot_module_simplified_preserves_stack_trace(self):
        module = traced(LinearPlusRelu())
        linear, add, relu = "scores = self.linear(x)", "scores = scores + y", "scores = scores.relu()"
        self.assertEqual(self.sources(module.graph), {"linear": linear, "add": add, "relu": relu})
        inputs = rows()
        compiled, capture = self.compile_simplified(module, inputs)
        self.same_training(module, compiled, inputs)
        _, forward, backward = capture.graphs
        self.assertEqual(
            self.sources(forward.module.graph),
            {"t": linear, "addmm": linear, "add": add, "relu": relu, "detach": relu},
        )
        # A gradient comes from the line whose value it is a gradient of.
        self.assertEqual(
            self.sources(backward.module.graph),
            {
                "detach_1": relu,
                "threshold_backward": relu,
                **dict.fromkeys(("t_1", "mm", "t_2", "mm_1", "t_3", "sum_1", "view", "t_4"), linear),
            },
        )

    def test_aot_module_simplified_preserves_stack_trace_from_mutation(self):
        module = traced(DoublesFirstRow())
        row, double, add = "row = x[0]", "row.mul_(2)", "return (x + x,)"
        self.assertEqual(self.sources(module.graph), {"getitem": row, "mul_": double, "add": add})
        x, _ = rows(requires_grad=False)
        compiled, capture = self.compile_simplified(module, [x], keep_input_mutations=True)
        (graph,) = capture.graphs
        # The write to the input, which functionalization moved to the end, comes from the in-place line.
        self.assertEqual(
            self.sources(graph.module.graph),
            {"select": row, "mul": double, "select_scatter": double, "add": add, "copy_": double},
        )
        expected = x.clone()
        (result,) = DoublesFirstRow()(expected)
        self.assertEqual(compiled(x), [result])
        self.assertEqual(x, expected)

    def test_aot_module_simplified_fake_tensor_gm_raises(self):
        fake = FakeTensorMode()
        constant = fake.from_tensor(torch.randn(4))

        class PlusFake(nn.Module):
            def forward(self, x):
                # A tensor from outside looks like a constant, and a fake one has no value to be one.
                return (x + constant,)

        x = torch.randn(4, requires_grad=True)
        with self.refused(AssertionError, "Unexpected fake"):
            self.compile_simplified(PlusFake(), [fake.from_tensor(x)])
        with self.refused(AssertionError, "Mixing fake modes NYI"):
            self.compile_simplified(PlusFake(), [x])


if __name__ == "__main__":
    run_tests()
