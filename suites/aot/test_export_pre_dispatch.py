"""Export before dispatch: grad modes are nodes, composite operators whole."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch._higher_order_ops.out_dtype import out_dtype

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import graph_text, torch_at_least
from suites.aot.export_base import ConvAndNorm, ExportTestCase, OfFunction, WithParameter

#: CUDA multiplies matrices of int8 only from 17 rows on, and by eights.
WIDE = (24, 24)


class TestAOTExportPreDispatch(ExportTestCase):
    def export_early(self, module, *inputs, grad=True):
        return self.export(module, *inputs, grad=grad, pre_dispatch=True)

    def test_aot_export_predispatch_func_simple(self):
        def write_without_grad(parameter, x):
            y = x + 2
            with torch.no_grad():
                y.add_(2)
            return (x * 2 + y,)

        module = WithParameter(write_without_grad)
        exported = gm, _ = self.export_early(module, torch.randn(2, 2), grad=False)
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1, arg1_1)
  add = aten.add.Tensor(arg1_1, 2)
  _set_grad_enabled = _set_grad_enabled(False)
  add_1 = aten.add.Tensor(add, 2)
  _set_grad_enabled_1 = _set_grad_enabled(False)
  mul = aten.mul.Tensor(arg1_1, 2)
  add_2 = aten.add.Tensor(mul, add_1)
  return (add_2,)""",
        )
        self.check_replay(exported, module, torch.randn(2, 2))
        with_grad, _ = self.export_early(module, torch.randn(2, 2))
        self.assertEqual(self.modes(with_grad), [False, True])

    def modes(self, gm):
        """The grad modes that the graph sets, in order."""
        nodes = gm.graph.find_nodes(op="call_function", target=torch._C._set_grad_enabled)
        return [node.args[0] for node in nodes]

    def test_aot_export_predispatch_func_composite_implicit(self):
        def square(parameter, x):
            with torch.enable_grad():
                y = x @ x
            y.add_(2)
            return (x.sum() + y.sum(),)

        module = WithParameter(square)
        exported = gm, _ = self.export_early(module, torch.randn(2, 2), grad=False)
        # Torch of 2024 had decomposed matmul into mm by here.
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1, arg1_1)
  _set_grad_enabled = _set_grad_enabled(True)
  matmul = aten.matmul.default(arg1_1, arg1_1)
  _set_grad_enabled_1 = _set_grad_enabled(False)
  add = aten.add.Tensor(matmul, 2)
  sum_1 = aten.sum.default(arg1_1)
  sum_2 = aten.sum.default(add)
  add_1 = aten.add.Tensor(sum_1, sum_2)
  return (add_1,)""",
        )
        self.check_replay(exported, module, torch.randn(2, 2))

    def test_aot_export_predispatch_with_autograd_op(self):
        def write_twice(parameter, x):
            with torch.enable_grad():
                y = x + 5
                y.add_(5)
                y.add_(7)
                return (x.cos() + y.sin(),)

        module = WithParameter(write_twice)
        exported = gm, _ = self.export_early(module, torch.randn(2, 2), grad=False)
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1, arg1_1)
  _set_grad_enabled = _set_grad_enabled(True)
  add = aten.add.Tensor(arg1_1, 5)
  add_1 = aten.add.Tensor(add, 5)
  add_2 = aten.add.Tensor(add_1, 7)
  cos = aten.cos.default(arg1_1)
  sin = aten.sin.default(add_2)
  add_3 = aten.add.Tensor(cos, sin)
  _set_grad_enabled_1 = _set_grad_enabled(False)
  return (add_3,)""",
        )
        self.check_replay(exported, module, torch.randn(2, 2))

    def test_aot_export_predispatch_outdtype(self):
        class Widening(nn.Module):
            """Multiplies int8 matrices into int32; ``keep`` says how the weight hangs on the module."""

            def __init__(self, keep):
                super().__init__()
                keep(self, "weight", torch.randint(-128, 127, WIDE, dtype=torch.int8))

            def forward(self, x):
                y = x + 2
                y.add_(5)
                return (out_dtype(torch.ops.aten.mm.default, torch.int32, y, self.weight),)

        x = torch.randint(-100, 100, WIDE, dtype=torch.int8)
        module = Widening(nn.Module.register_buffer)
        exported = gm, _ = self.export_early(module, x)
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1, arg1_1)
  add = aten.add.Tensor(arg1_1, 2)
  add_1 = aten.add.Tensor(add, 5)
  out_dtype = out_dtype(aten.mm.default, int32, add_1, arg0_1)
  return (out_dtype,)""",
        )
        found = self.run_exported(exported, module, x)["out_dtype"]
        plain, weight = ((each.cpu().numpy()).astype("i4") for each in (x + 7, module.weight))
        self.assertEqual(found, torch.from_numpy(plain @ weight))
        found_in = "out_dtype" if torch_at_least("2.13") else "aten.to.dtype"
        # A tensor that is no parameter and no buffer is no input, and has no place among fake tensors.
        with self.refused(
            AssertionError, "Please convert all Tensors to FakeTensors first", f"Found in {found_in}("
        ):
            self.export_early(Widening(setattr), x)

    @torch.backends.cudnn.flags(enabled=False)  # it has an operator of its own for this
    def test_aot_export_predispatch_conv_and_bn(self):
        module = ConvAndNorm(lambda normed: (normed,))
        exported = gm, signature = self.export_early(module, torch.randn(1, 1, 3, 3))
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1, arg1_1, arg2_1, arg3_1, arg4_1, arg5_1, arg6_1, arg7_1)
  conv2d = aten.conv2d.default(arg7_1, arg0_1, arg1_1)
  add = aten.add.Tensor(arg6_1, 1)
  _native_batch_norm_legit_functional = aten._native_batch_norm_legit_functional.default(conv2d,
      arg2_1, arg3_1, arg4_1, arg5_1, True, 0.1, 1e-05)
  getitem = _native_batch_norm_legit_functional[0]
  getitem_3 = _native_batch_norm_legit_functional[3]
  getitem_4 = _native_batch_norm_legit_functional[4]
  return (getitem_3, getitem_4, add, getitem)""",
        )
        self.assertEqual(
            signature.buffers_to_mutate,
            {"getitem_3": "bn.running_mean", "getitem_4": "bn.running_var", "add": "bn.num_batches_tracked"},
        )
        self.check_replay(exported, module, torch.randn(1, 1, 3, 3))

    def test_aot_export_predispatch_reshape(self):
        module = OfFunction(lambda x: (x.reshape(4, 4).sum(),))
        exported = gm, _ = self.export_early(module, torch.randn(2, 8))
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1)
  view = aten.view.default(arg0_1, [4, 4])
  sum_1 = aten.sum.default(view)
  return (sum_1,)""",
        )
        self.check_replay(exported, module, torch.randn(2, 8))

    def test_aot_export_predispatch_contiguous(self):
        module = OfFunction(lambda x: (torch.ops.aten.contiguous(x).sum(),))
        exported = gm, _ = self.export_early(module, torch.randn(2, 8))
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1)
  sum_1 = aten.sum.default(arg0_1)
  return (sum_1,)""",
        )
        self.check_replay(exported, module, torch.randn(2, 8))


if __name__ == "__main__":
    run_tests()
