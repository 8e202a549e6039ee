"""Export of control flow: the branches of a ``cond`` and the body of a ``map`` are graphs in the graph.

Python's own control flow is the reference, on inputs that take each branch.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.experimental import control_flow

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import graph_text
from suites.aot.export_base import ExportTestCase, OfFunction

#: Inputs whose sum is above 4, and below: what the conditions here turn on.
ABOVE, BELOW = [[2.0, 1.5], [1.0, 0.5]], [[-1.0, 0.5], [0.25, 2.0]]


def plain_cond(predicate, true, false, operands):
    """``torch.cond`` as Python would have it."""
    return (true if predicate else false)(*operands)


def plain_map(function, rows, *others):
    """``control_flow.map`` as Python would have it."""
    return torch.stack([function(row, *others) for row in rows])


class TestAOTExportControlFlow(ExportTestCase):
    def export_early(self, module, *inputs):
        return self.export(module, *inputs, pre_dispatch=True)

    def check_branches(self, exported, function, *operators, inputs):
        """Run the graph for each of ``inputs`` beside ``function(*tensors, *operators)``."""
        reference = OfFunction(lambda *tensors: function(*tensors, *operators))
        for tensors in inputs:
            self.check_replay(exported, reference, *tensors)

    def test_aot_export_predispatch_with_cond_nested(self):
        def nested(x, cond):
            def true(x):
                y = x.sin()
                y.add_(5)

                def inner_true(x):
                    y = x.sin()
                    y.add_(7)
                    return y.sin()

                return cond(y.cos().sum() > 0, inner_true, lambda x: x.cos(), [y.cos()])

            chosen = cond(x.sum() > 4, true, lambda x: x.cos() - 1, [x])
            return chosen + 3, chosen + 4

        module = OfFunction(lambda x: nested(x, torch.cond))
        exported = gm, _ = self.export_early(module, torch.randn(2, 2))
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1)
  sum_1 = aten.sum.default(arg0_1)
  gt = aten.gt.Scalar(sum_1, 4)
  true_graph_0 = self.true_graph_0
  false_graph_0 = self.false_graph_0
  cond = cond(gt, true_graph_0, false_graph_0, (arg0_1,))
  getitem = cond[0]
  add = aten.add.Tensor(getitem, 3)
  add_1 = aten.add.Tensor(getitem, 4)
  return (add, add_1)

forward.true_graph_0(arg0_1)
  sin = aten.sin.default(arg0_1)
  add = aten.add.Tensor(sin, 5)
  cos = aten.cos.default(add)
  sum_1 = aten.sum.default(cos)
  gt = aten.gt.Scalar(sum_1, 0)
  cos_1 = aten.cos.default(add)
  true_graph_0 = self.true_graph_0
  false_graph_0 = self.false_graph_0
  cond = cond(gt, true_graph_0, false_graph_0, (cos_1,))
  getitem = cond[0]
  return (getitem,)

forward.true_graph_0.true_graph_0(arg0_1)
  sin = aten.sin.default(arg0_1)
  add = aten.add.Tensor(sin, 7)
  sin_1 = aten.sin.default(add)
  return (sin_1,)

forward.true_graph_0.false_graph_0(arg0_1)
  cos = aten.cos.default(arg0_1)
  return (cos,)

forward.false_graph_0(arg0_1)
  cos = aten.cos.default(arg0_1)
  sub = aten.sub.Tensor(cos, 1)
  return (sub,)""",
        )
        # cos(sin(x) + 5) is 0.96 at 1.5 and -0.45 at 4: the second condition holds for the first input only.
        inputs = [[torch.full((2, 2), 1.5)], [torch.full((2, 2), 4.0)], [torch.tensor(BELOW)]]
        self.check_branches(exported, nested, plain_cond, inputs=inputs)

    def test_aot_export_predispatch_with_cond(self):
        def drawn(x, predicate, cond):
            def true(x):
                y = torch.ops.aten.linear.default(x.sin(), torch.randn(2, 2, device=x.device))
                y.add_(5)
                return y.cos()

            def false(x):
                y = x.cos()
                y.add_(6)
                return y.sin()

            chosen = cond(predicate(x), true, false, [x])
            return chosen + 3, chosen + 4

        def above(x):
            return x.sum() > 4

        exported = gm, _ = self.export_early(
            OfFunction(lambda x: drawn(x, above, torch.cond)), torch.randn(2, 2)
        )
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1)
  sum_1 = aten.sum.default(arg0_1)
  gt = aten.gt.Scalar(sum_1, 4)
  true_graph_0 = self.true_graph_0
  false_graph_0 = self.false_graph_0
  cond = cond(gt, true_graph_0, false_graph_0, (arg0_1,))
  getitem = cond[0]
  add = aten.add.Tensor(getitem, 3)
  add_1 = aten.add.Tensor(getitem, 4)
  return (add, add_1)

forward.true_graph_0(arg0_1)
  sin = aten.sin.default(arg0_1)
  randn = aten.randn.default([2, 2], device=device0, pin_memory=False)
  linear = aten.linear.default(sin, randn)
  add = aten.add.Tensor(linear, 5)
  cos = aten.cos.default(add)
  return (cos,)

forward.false_graph_0(arg0_1)
  cos = aten.cos.default(arg0_1)
  add = aten.add.Tensor(cos, 6)
  sin = aten.sin.default(add)
  return (sin,)""",
        )
        self.check_branches(
            exported, drawn, above, plain_cond, inputs=[[torch.tensor(ABOVE)], [torch.tensor(BELOW)]]
        )
        # A condition on a static shape is known when the graph is made: one branch is left, and no cond.
        module = OfFunction(lambda x: drawn(x, lambda x: x.shape[0] > 4, torch.cond))
        folded = gm, _ = self.export_early(module, torch.randn(2, 2))
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1)
  cos = aten.cos.default(arg0_1)
  add = aten.add.Tensor(cos, 6)
  sin = aten.sin.default(add)
  add_1 = aten.add.Tensor(sin, 3)
  add_2 = aten.add.Tensor(sin, 4)
  return (add_1, add_2)""",
        )
        self.check_branches(
            folded, drawn, lambda x: False, plain_cond, inputs=[[torch.tensor(ABOVE)], [torch.tensor(BELOW)]]
        )

    def test_aot_export_predispatch_map_1(self):
        def mapped(x, y, predicate, cond, map_rows):
            def true(x, r):
                y = x.sin()
                y.add_(5)
                return y.cos() + r.sum()

            def false(x, r):
                z = x.cos()

                def row(x, y):
                    a = x.cos()
                    a.add_(5)
                    return a + y

                return z + map_rows(row, z, r).sum() + map_rows(row, z, r).sum()

            chosen = cond(predicate(x), true, false, [x, y])
            return chosen + 3, chosen + 4

        def above(x):
            return x.sum() > 4

        module = OfFunction(lambda x, y: mapped(x, y, above, torch.cond, control_flow.map))
        exported = gm, _ = self.export_early(module, torch.randn(2, 2), torch.randn(2))
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1, arg1_1)
  sum_1 = aten.sum.default(arg0_1)
  gt = aten.gt.Scalar(sum_1, 4)
  true_graph_0 = self.true_graph_0
  false_graph_0 = self.false_graph_0
  cond = cond(gt, true_graph_0, false_graph_0, (arg0_1, arg1_1))
  getitem = cond[0]
  add = aten.add.Tensor(getitem, 3)
  add_1 = aten.add.Tensor(getitem, 4)
  return (add, add_1)

forward.true_graph_0(arg0_1, arg1_1)
  sin = aten.sin.default(arg0_1)
  add = aten.add.Tensor(sin, 5)
  cos = aten.cos.default(add)
  sum_1 = aten.sum.default(arg1_1)
  add_1 = aten.add.Tensor(cos, sum_1)
  return (add_1,)

forward.false_graph_0(arg0_1, arg1_1)
  cos = aten.cos.default(arg0_1)
  body_graph_0 = self.body_graph_0
  map_impl = map_impl(body_graph_0, [cos], [arg1_1])
  getitem = map_impl[0]
  sum_1 = aten.sum.default(getitem)
  add = aten.add.Tensor(cos, sum_1)
  body_graph_1 = self.body_graph_1
  map_impl_1 = map_impl(body_graph_1, [cos], [arg1_1])
  getitem_1 = map_impl_1[0]
  sum_2 = aten.sum.default(getitem_1)
  add_1 = aten.add.Tensor(add, sum_2)
  return (add_1,)

forward.false_graph_0.body_graph_0(arg0_1, arg1_1)
  cos = aten.cos.default(arg0_1)
  add = aten.add.Tensor(cos, 5)
  add_1 = aten.add.Tensor(add, arg1_1)
  return (add_1,)

forward.false_graph_0.body_graph_1(arg0_1, arg1_1)
  cos = aten.cos.default(arg0_1)
  add = aten.add.Tensor(cos, 5)
  add_1 = aten.add.Tensor(add, arg1_1)
  return (add_1,)""",
        )
        self.assertEqual(graph_text(gm.false_graph_0.body_graph_1), graph_text(gm.false_graph_0.body_graph_0))
        inputs = [[torch.tensor(ABOVE), torch.randn(2)], [torch.tensor(BELOW), torch.randn(2)]]
        self.check_branches(exported, mapped, above, plain_cond, plain_map, inputs=inputs)

        def long(x):
            return x.shape[0] > 4

        folded = OfFunction(lambda x, y: mapped(x, y, long, torch.cond, control_flow.map))
        exported = gm, _ = self.export_early(folded, torch.randn(2, 2), torch.randn(2))
        self.assertEqual(gm.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond), [])
        self.assertFalse(hasattr(gm, "true_graph_0"))
        self.check_branches(exported, mapped, long, plain_cond, plain_map, inputs=inputs)

    def test_aot_export_predispatch_map_2(self):
        def mapped(x, y, map_rows):
            z = x.cos()

            def row(x, y):
                a = x.cos()
                a.add_(5)
                return a + y

            return (z + map_rows(row, z, y).sum(),)

        module = OfFunction(lambda x, y: mapped(x, y, control_flow.map))
        exported = gm, _ = self.export_early(module, torch.randn(2, 2), torch.ones(2))
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1, arg1_1)
  cos = aten.cos.default(arg0_1)
  body_graph_0 = self.body_graph_0
  map_impl = map_impl(body_graph_0, [cos], [arg1_1])
  getitem = map_impl[0]
  sum_1 = aten.sum.default(getitem)
  add = aten.add.Tensor(cos, sum_1)
  return (add,)

forward.body_graph_0(arg0_1, arg1_1)
  cos = aten.cos.default(arg0_1)
  add = aten.add.Tensor(cos, 5)
  add_1 = aten.add.Tensor(add, arg1_1)
  return (add_1,)""",
        )
        inputs = [[torch.randn(2, 2), torch.randn(2)], [torch.randn(2, 2), torch.ones(2)]]
        self.check_branches(exported, mapped, plain_map, inputs=inputs)

    def test_aot_export_with_torch_cond(self):
        # The one test here of control flow after dispatch, where dead writes are gone from the branches.
        def dead_writes(x, cond):
            def true(x):
                y = x + 4
                y.add_(5)
                return x.cos()

            def false(x):
                y = x + 5
                y.add_(6)
                return x.sin()

            chosen = cond(x.sum() > 4, true, false, [x])
            return chosen + 3, chosen + 4

        module = OfFunction(lambda x: dead_writes(x, torch.cond))
        exported = gm, _ = self.export(module, torch.randn(3, 4))
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1)
  sum_1 = aten.sum.default(arg0_1)
  gt = aten.gt.Scalar(sum_1, 4)
  true_graph_0 = self.true_graph_0
  false_graph_0 = self.false_graph_0
  cond = cond(gt, true_graph_0, false_graph_0, (arg0_1,))
  getitem = cond[0]
  add = aten.add.Tensor(getitem, 3)
  add_1 = aten.add.Tensor(getitem, 4)
  return (add, add_1)

forward.true_graph_0(arg0_1)
  cos = aten.cos.default(arg0_1)
  return (cos,)

forward.false_graph_0(arg0_1)
  sin = aten.sin.default(arg0_1)
  return (sin,)""",
        )
        inputs = [[torch.rand(3, 4) + 1], [torch.rand(3, 4) - 1]]
        self.check_branches(exported, dead_writes, plain_cond, inputs=inputs)


if __name__ == "__main__":
    run_tests()
