"""Export ahead of time: joint and inference graphs with their signatures, and what export refuses."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import aot_function, default_decompositions, default_partition
from torch import nn
from torch._functorch.aot_autograd import aot_export_joint_simple

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import Capture, compilers_of, graph_text
from suites.aot.base import two_tensors
from suites.aot.export_base import ConvAndNorm, ExportTestCase, OfFunction, WithParameter

METADATA_MUTATION = "Found an input that received a metadata mutation, through e.g. a call to "
ALIASED_INPUTS = "Encountered aliased inputs that are mutated in the graph you are trying to export."
DUPLICATED_INPUTS = "Encountered duplicated inputs that are mutated in the graph you are trying to export."
SUBCLASS_INPUTS = "aot_export is not currently supported with traceable tensor subclass."
SECOND_LOSS = "Found an output of the forward that requires gradients, that was not the scalar loss."


def loss_and_image(normed):
    relu = torch.relu(normed)
    return relu.sum(), relu.detach()


class TestAOTExport(ExportTestCase):
    def test_aot_export_module_joint(self):
        module = ConvAndNorm(loss_and_image)
        exported = gm, signature = self.export(
            module, torch.randn(1, 1, 3, 3), joint=True, output_loss_index=0
        )
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1, arg1_1, arg2_1, arg3_1, arg4_1, arg5_1, arg6_1, arg7_1)
  convolution = aten.convolution.default(arg7_1, arg0_1, arg1_1, [1, 1], [0, 0], [1, 1], False, [0,
      0], 1)
  add = aten.add.Tensor(arg6_1, 1)
  _native_batch_norm_legit_functional =
      aten._native_batch_norm_legit_functional.default(convolution, arg2_1, arg3_1, arg4_1, arg5_1,
      True, 0.1, 1e-05)
  getitem = _native_batch_norm_legit_functional[0]
  getitem_1 = _native_batch_norm_legit_functional[1]
  getitem_2 = _native_batch_norm_legit_functional[2]
  getitem_3 = _native_batch_norm_legit_functional[3]
  getitem_4 = _native_batch_norm_legit_functional[4]
  relu = aten.relu.default(getitem)
  detach = aten.detach.default(relu)
  detach_1 = aten.detach.default(relu)
  sum_1 = aten.sum.default(relu)
  detach_2 = aten.detach.default(relu)
  ones_like = aten.ones_like.default(sum_1, pin_memory=False, memory_format=preserve_format)
  expand = aten.expand.default(ones_like, [1, 3, 3, 3])
  detach_3 = aten.detach.default(detach_1)
  threshold_backward = aten.threshold_backward.default(expand, detach_3, 0)
  native_batch_norm_backward = aten.native_batch_norm_backward.default(threshold_backward,
      convolution, arg2_1, getitem_3, getitem_4, getitem_1, getitem_2, True, 1e-05, [True, True,
      True])
  getitem_5 = native_batch_norm_backward[0]
  getitem_6 = native_batch_norm_backward[1]
  getitem_7 = native_batch_norm_backward[2]
  convolution_backward = aten.convolution_backward.default(getitem_5, arg7_1, arg0_1, [3], [1, 1],
      [0, 0], [1, 1], False, [0, 0], 1, [False, True, True])
  getitem_8 = convolution_backward[0]
  getitem_9 = convolution_backward[1]
  getitem_10 = convolution_backward[2]
  return (getitem_3, getitem_4, add, sum_1, detach_2, getitem_9, getitem_10, getitem_6, getitem_7)""",
        )
        backward = signature.backward_signature
        self.assertEqual(
            backward.gradients_to_parameters,
            {
                "getitem_9": "conv.weight",
                "getitem_10": "conv.bias",
                "getitem_6": "bn.weight",
                "getitem_7": "bn.bias",
            },
        )
        self.assertEqual(signature.user_outputs, ["sum_1", "detach_2"])
        # The index of the loss counts user outputs, but is looked up among all: this is the first buffer.
        self.assertEqual(backward.loss_output, "getitem_3")

        images = torch.randn(1, 1, 3, 3)
        self.check_replay(exported, module, images)
        found = self.run_exported(exported, module, images)
        loss, _ = module(images)
        loss.backward()
        gradients = {name: found[out] for out, name in backward.gradients_to_parameters.items()}
        self.assertEqual(gradients, {name: each.grad for name, each in module.named_parameters()})

    def test_aot_export_module_inference(self):
        module = ConvAndNorm(loss_and_image)
        exported = gm, signature = self.export(module, torch.randn(1, 1, 3, 3))
        self.assertExpectedGraph(
            graph_text(gm, shapes=True),
            """\
forward(arg0_1: float32[3, 1, 1, 1], arg1_1: float32[3], arg2_1: float32[3], arg3_1: float32[3],
    arg4_1: float32[3], arg5_1: float32[3], arg6_1: int64[], arg7_1: float32[1, 1, 3, 3])
  convolution: float32[1, 3, 3, 3] = aten.convolution.default(arg7_1, arg0_1, arg1_1, [1, 1], [0,
      0], [1, 1], False, [0, 0], 1)
  add: int64[] = aten.add.Tensor(arg6_1, 1)
  _native_batch_norm_legit_functional: (float32[1, 3, 3, 3], float32[3], float32[3], float32[3],
      float32[3]) = aten._native_batch_norm_legit_functional.default(convolution, arg2_1, arg3_1,
      arg4_1, arg5_1, True, 0.1, 1e-05)
  getitem: float32[1, 3, 3, 3] = _native_batch_norm_legit_functional[0]
  getitem_3: float32[3] = _native_batch_norm_legit_functional[3]
  getitem_4: float32[3] = _native_batch_norm_legit_functional[4]
  relu: float32[1, 3, 3, 3] = aten.relu.default(getitem)
  sum_1: float32[] = aten.sum.default(relu)
  detach: float32[1, 3, 3, 3] = aten.detach.default(relu)
  return (getitem_3, getitem_4, add, sum_1, detach)""",
        )
        self.assertIsNone(signature.backward_signature)
        self.assertEqual(
            signature.buffers_to_mutate,
            {"getitem_3": "bn.running_mean", "getitem_4": "bn.running_var", "add": "bn.num_batches_tracked"},
        )
        self.check_replay(exported, module, torch.randn(1, 1, 3, 3))

    def test_aot_export_simplified_basic(self):
        def products(x, y):
            return x * y, y * y.detach()

        x, y = torch.randn(2, requires_grad=True), torch.randn(2, requires_grad=True)
        inference = aot_export_joint_simple(products, [x, y], trace_joint=False)
        self.assertExpectedGraph(
            graph_text(inference),
            """\
forward(arg0_1, arg1_1)
  mul = aten.mul.Tensor(arg0_1, arg1_1)
  detach = aten.detach.default(arg1_1)
  mul_1 = aten.mul.Tensor(arg1_1, detach)
  return (mul, mul_1)""",
        )
        joint = aot_export_joint_simple(products, [x, y], trace_joint=True)
        forward, backward = default_partition(joint, [x, y], num_fwd_outputs=2)
        self.assertExpectedGraph(
            graph_text(forward),
            """\
forward(primals_1, primals_2)
  mul = aten.mul.Tensor(primals_1, primals_2)
  detach = aten.detach.default(primals_2)
  mul_1 = aten.mul.Tensor(primals_2, detach)
  return (mul, mul_1, primals_1, primals_2, detach)""",
        )
        self.assertExpectedGraph(
            graph_text(backward),
            """\
forward(primals_1, primals_2, detach, tangents_1, tangents_2)
  mul_2 = aten.mul.Tensor(tangents_2, detach)
  mul_3 = aten.mul.Tensor(tangents_1, primals_1)
  mul_4 = aten.mul.Tensor(tangents_1, primals_2)
  add = aten.add.Tensor(mul_2, mul_3)
  return (mul_4, add)""",
        )

        x, y = torch.randn(2, requires_grad=True), torch.randn(2, requires_grad=True)
        expected = products(x, y)
        self.assertEqual(inference(x, y), expected)
        first, second, *saved = forward(x.detach(), y.detach())
        self.assertEqual((first, second), expected)
        tangents = [torch.randn(2), torch.randn(2)]
        self.assertEqual(backward(*saved, *tangents), torch.autograd.grad(expected, (x, y), tangents))

    def test_aot_export_forward_mutation_no_buffer_mut(self):
        class Shifted(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("untouched", torch.ones(6, 4))

            def forward(self, x):
                x.add_(4)
                return (x.cos().sum() + self.untouched.sum(),)

        module = Shifted()
        exported = gm, signature = self.export(module, torch.ones(6, 4))
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1, arg1_1)
  add = aten.add.Tensor(arg1_1, 4)
  cos = aten.cos.default(add)
  sum_1 = aten.sum.default(cos)
  sum_2 = aten.sum.default(arg0_1)
  add_1 = aten.add.Tensor(sum_1, sum_2)
  return (add, add_1)""",
        )
        self.assertEqual(signature.buffers_to_mutate, {})
        self.assertEqual(signature.user_inputs_to_mutate, {"add": "arg1_1"})
        self.check_replay(exported, module, torch.randn(6, 4))

    def test_aot_export_ban_dropout_mut_pre_dispatch(self):
        def add_to_dropout(parameter, x):
            # Out of training dropout returns its input, so this writes to x.
            y = torch.ops.aten.dropout(x, 0.1, train=False)
            y.add_(1)
            return (y,)

        module, x = WithParameter(add_to_dropout), torch.randn(2, 2)
        with self.refused(RuntimeError, "cannot mutate tensors with frozen storage"):
            self.export(module, x, pre_dispatch=True)
        # After dispatch dropout is a clone.
        exported = gm, signature = self.export(module, x)
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1, arg1_1)
  clone = aten.clone.default(arg1_1)
  add = aten.add.Tensor(clone, 1)
  return (add,)""",
        )
        self.assertEqual(signature.user_inputs_to_mutate, {})
        other = torch.randn(2, 2)
        self.assertEqual(self.run_exported(exported, module, other), {"add": other + 1})

        capture = Capture()
        nop = capture.around(compilers_of("nop"))
        compiled = aot_function(
            add_to_dropout, nop.forward, nop.backward, decompositions=default_decompositions, dynamic=True
        )
        compiled(*torch.randn(2, 2))
        (captured,) = capture.graphs
        self.assertEqual(graph_text(captured.module), graph_text(gm))

    def refuses(self, message, function, inputs):
        """Each way to export ``function(p, *inputs())`` is refused; ``p`` of a module is its parameter."""
        free = torch.ones(2)
        for joint in (False, True):
            with self.subTest("simple", joint=joint), self.refused(RuntimeError, message):
                aot_export_joint_simple(function, [free, *inputs()], trace_joint=joint)
        with self.subTest("module"), self.refused(RuntimeError, message):
            self.export(WithParameter(function), *inputs())

    def test_aot_export_metadata_mutation_banned(self):
        def transpose(parameter, x):
            x.t_()
            return (x * 2,)

        self.refuses(METADATA_MUTATION, transpose, lambda: [torch.randn(2, 4)])

    def test_aot_export_synthetic_bases_banned(self):
        def double_first(parameter, x, y):
            x.mul_(2)
            return (x + y,)

        def alias():
            x = torch.randn(2)
            return [x, x.view(-1)]

        self.refuses(ALIASED_INPUTS, double_first, alias)
        # Without the write, aliased inputs are two inputs.
        gm, _ = self.export(OfFunction(lambda x, y: (x + y,)), *alias())
        self.assertExpectedGraph(
            graph_text(gm),
            """\
forward(arg0_1, arg1_1)
  add = aten.add.Tensor(arg0_1, arg1_1)
  return (add,)""",
        )

    def test_aot_export_input_dupes_banned(self):
        def double_first(parameter, x, y):
            x.mul_(2)
            return (x + y,)

        self.refuses(DUPLICATED_INPUTS, double_first, lambda: [torch.randn(2)] * 2)

    def test_subclass_tensors_banned(self):
        """They would be more inputs of the graph than its signature names."""
        module, x = WithParameter(lambda p, x: ((p * x).sum(),)), two_tensors(torch.randn(2))
        for joint in ({"joint": True, "output_loss_index": 0}, {"grad": False}):
            with self.subTest(**joint), self.refused(RuntimeError, SUBCLASS_INPUTS):
                self.export(module, x, **joint)

    def test_aot_export_multiple_outputs_require_grad_banned(self):
        def scale(parameter, x):
            scaled = parameter * x
            return scaled, scaled.sum()

        module, x = WithParameter(scale), torch.randn(2)
        with self.refused(
            RuntimeError, SECOND_LOSS, "output index 1 is the loss", "the output at index 0 requires"
        ):
            self.export(module, x, joint=True, output_loss_index=1)

    def test_joint_export_needs_a_loss(self):
        def scale(parameter, x):
            scaled = parameter * x
            return scaled.sum(), scaled.detach()

        scalar = "We require the output marked as the loss (at index 0) to be a scalar, but it has shape"
        no_gradient = "The output at index 1 was marked as the loss, but it does not require gradients"
        module, x = WithParameter(scale), torch.randn(2)
        with self.refused(RuntimeError, "If trace_joint=True", "must be a scalar loss"):
            self.export(module, x, joint=True)
        with self.refused(RuntimeError, scalar, "torch.Size([2])"):
            self.export(WithParameter(lambda p, x: (p * x,)), x, joint=True, output_loss_index=0)
        with self.refused(RuntimeError, no_gradient):
            self.export(
                WithParameter(lambda p, x: ((p * x).sum().detach(), x.sum())),
                x,
                joint=True,
                output_loss_index=1,
            )
        with self.refused(
            RuntimeError, "Graph output must be a (). This is so that we can avoid pytree processing"
        ):
            self.export(WithParameter(lambda p, x: {"sum": (p * x).sum()}), x)


if __name__ == "__main__":
    run_tests()
