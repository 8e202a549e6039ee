"""Modules: parameters and buffers as inputs of graphs, weights that stay in them, mixed precision."""

from __future__ import annotations

import copy
import re
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import aot_module, compiled_module
from torch import nn
from torch._decomp import decomposition_table
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from harness import load_tests, requires_cuda, run_tests, skipIfRocm  # noqa: F401  (unittest calls load_tests)
from harness.graphs import Capture, compilers_of
from suites.aot.refusals import RefusalTestCase

aten = torch.ops.aten


class ModuleTest(RefusalTestCase):
    """Modules compiled as a whole."""

    def test_complex_linear(self):
        # pytorch issue 93424
        class Magnitude(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(10, 10, dtype=torch.complex64)

            def forward(self, x):
                return self.linear(x).sum().abs()

        self.verify_both(Magnitude(), [torch.randn(1, 10, 10, dtype=torch.complex64)])

    def test_embedding_bag_view_dynamic(self):
        class Bag(nn.Module):
            def __init__(self):
                super().__init__()
                self.bag = nn.EmbeddingBag(100, 8, sparse=True)

            def forward(self, indices, offsets):
                return self.bag(indices, offsets).view(-1)

        # The gradient of the table is sparse: it has no storage to ask for aliases.
        for dynamic in (False, True):
            self.verify(Bag(), [torch.arange(3), torch.arange(3)], dynamic=dynamic)

    def test_parameters_of_a_class_of_their_own(self):
        """A class of parameters is no subclass tensor: it is an input as every parameter is."""

        class Scale(nn.Parameter):
            pass

        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = Scale(torch.tensor([1.0, 2.0, 3.0]))

            def forward(self, x):
                return x * self.scale

        module, x = Scaled(), torch.randn(2, 3)
        self.assertIs(type(module.scale), Scale)
        for grad in (True, False):
            for compiled in (
                aot_module(module, lambda graph, _: graph),
                torch.compile(module, backend="aot_eager"),
            ):
                with self.subTest(grad=grad), torch.set_grad_enabled(grad):
                    found = compiled(x)
                    self.assertEqual(found, x * torch.tensor([1.0, 2.0, 3.0]))
                    self.assertEqual(found.requires_grad, grad)
                if grad:
                    module.zero_grad()
                    found.sum().backward()
                    self.assertEqual(module.scale.grad, x.sum(0))

    def compiled_by_parts(self, module):
        """``module`` by ``compiled_module``, and what captures its graphs."""
        capture = Capture()
        compilers = capture.around(compilers_of("nop"))
        return compiled_module(module, compilers.forward, compilers.backward), capture

    def same_step(self, module, compiled, inputs):
        """Compare output, gradients and buffers of one step with those of ``module``."""
        expected, found = module(inputs), compiled(inputs)
        self.assertEqual(found, expected, exact_stride=True)
        weight = torch.randn_like(expected)
        (expected * weight).sum().backward()
        (found * weight).sum().backward()
        gradients = [
            sorted((name, each.grad) for name, each in m.named_parameters()) for m in (compiled, module)
        ]
        for (_, one), (_, other) in zip(*gradients, strict=True):
            self.assertIsNotNone(one)
            self.assertEqual(one, other, exact_stride=True)
        self.assertEqual(list(compiled.buffers()), list(module.buffers()))

    def test_module(self):
        module = nn.Sequential(nn.Linear(32, 32), nn.ReLU())
        compiled, capture = self.compiled_by_parts(copy.deepcopy(module))
        self.same_step(module, compiled, torch.randn(32, 32))
        self.assertEqual([graph.role for graph in capture.graphs], ["forward", "backward"])
        self.assertExpectedGraph(
            capture.graphs[0].text,
            """\
forward(primals_1, primals_2, primals_3)
  t = aten.t.default(primals_1)
  addmm = aten.addmm.default(primals_2, primals_3, t)
  relu = aten.relu.default(addmm)
  detach = aten.detach.default(relu)
  return (relu, primals_3, detach)""",
        )

    def test_batchnorm(self):
        module = nn.BatchNorm2d(4)
        compiled, capture = self.compiled_by_parts(copy.deepcopy(module))
        for _ in range(2):
            self.same_step(module, compiled, torch.randn(2, 4, 2, 2))
        self.assertEqual([graph.role for graph in capture.graphs], ["forward", "backward"])
        self.assertEqual(module.num_batches_tracked, torch.tensor(2))

    def test_inference_mode(self):
        module, rows = nn.Linear(4, 4), torch.randn(4, 4)
        capture = Capture()
        compiled = aot_module(module, fw_compiler=capture.around(compilers_of("nop")).forward)
        with torch.inference_mode():
            found = compiled(rows)
            self.assertTrue(found.is_inference())
            self.assertEqual(found, rows @ module.weight.T + module.bias)
        self.assertEqual(len(capture.graphs), 1)


class WeightsInGraphTest(RefusalTestCase):
    """Traces in which weights are constants among fake tensors."""

    def test_real_weights_in_symbolic_mode(self):
        module = nn.Linear(5, 5).eval()
        traced = make_fx(module, tracing_mode="symbolic", _allow_non_fake_inputs=True)(torch.rand(2, 5))
        functional = make_fx(functionalize(traced), tracing_mode="symbolic", _allow_non_fake_inputs=True)(
            torch.rand(2, 5)
        )
        for graph in (traced, functional):
            for rows in (2, 7):
                x = torch.randn(rows, 5)
                self.assertEqual(graph(x), module(x))
            # The weights are not lifted to inputs.
            self.assertEqual(len(graph.graph.find_nodes(op="placeholder")), 1)
            self.assertEqual(len(graph.graph.find_nodes(op="get_attr", target="_param_constant0")), 1)
        with self.assertRaisesRegex(Exception, re.escape("Please convert all Tensors to FakeTensors")):
            make_fx(module, tracing_mode="symbolic", _allow_non_fake_inputs=False)(torch.rand(2, 5))

    def test_real_weights_in_symbolic_mode_with_inplace_ops(self):
        class Resized(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("buffer", torch.ones(4, 5))

            def forward(self, x):
                y = self.buffer.add_(3)
                y.resize_([20])
                return x.sum() + self.buffer.sum()

        module = Resized().eval()
        with self.assertRaisesRegex(Exception, re.escape("Can't call metadata")):
            make_fx(module, tracing_mode="symbolic", _allow_non_fake_inputs=True)(torch.rand(4, 5))


class MixedPrecisionTest(RefusalTestCase):
    """Automatic casts around and inside of graphs."""

    def test_autocast_disable_guard(self):
        self.check_disable_guard("cpu", torch.bfloat16)

    @requires_cuda
    def test_autocast_disable_guard_cuda(self):
        self.check_disable_guard("cuda", torch.float16)

    def check_disable_guard(self, device, lower):
        x = torch.rand(4, 4, device=device)
        with torch.autocast(device):
            self.assertIs((x @ x).dtype, lower)
            with torch._C._DisableAutocast():
                self.assertIs((x @ x).dtype, torch.float32)
            self.assertIs((x @ x).dtype, lower)

    def test_nonidempotent_amp(self):
        result = self.check_nonidempotent("cpu", torch.bfloat16)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1, primals_2)
  unsqueeze = aten.unsqueeze.default(primals_1, 2)
  permute = aten.permute.default(unsqueeze, [2, 0, 1])
  unsqueeze_1 = aten.unsqueeze.default(primals_2, 2)
  permute_1 = aten.permute.default(unsqueeze_1, [0, 2, 1])
  permute_2 = aten.permute.default(permute, [2, 0, 1])
  view = aten.view.default(permute_2, [1, 1, 256])
  permute_3 = aten.permute.default(permute_1, [2, 0, 1])
  view_1 = aten.view.default(permute_3, [1, 256, 30])
  _to_copy = aten._to_copy.default(view, dtype=bfloat16)
  bmm = aten.bmm.default(_to_copy, view_1)
  view_2 = aten.view.default(bmm, [1, 30, 1])
  permute_4 = aten.permute.default(view_2, [1, 2, 0])
  view_3 = aten.view.default(permute_4, [30])
  _log_softmax = aten._log_softmax.default(view_3, 0, False)
  detach = aten.detach.default(_log_softmax)
  return (_log_softmax, view_1, _to_copy, detach)""",
        )

    @requires_cuda
    def test_nonidempotent_amp_cuda(self):
        self.check_nonidempotent("cuda", torch.float16)

    def check_nonidempotent(self, device, lower):
        """What autocast did to the trace must not be done again to the graph when it is run."""

        def f(weights, hidden):
            return torch.einsum("ah,th->t", weights, hidden).log_softmax(0)

        weights = torch.randn(1, 256, device=device)
        hidden = torch.randn(30, 256, device=device, dtype=lower)
        with torch.autocast(device):
            return self.verify_both(f, [weights, hidden])

    @requires_cuda
    @skipIfRocm
    def test_batch_norm_amp(self):
        def normed(x, weight, bias, mean, var):
            return aten.cudnn_batch_norm(x, weight, bias, mean, var, True, 0.1, 1e-5)

        channels = 64
        inputs = [
            torch.randn(16, channels, 112, 112, dtype=torch.float16, device="cuda"),
            *(torch.randn(channels, device="cuda") for _ in range(3)),
            torch.rand(channels, device="cuda"),
        ]
        table = {aten.cudnn_batch_norm: decomposition_table[aten.cudnn_batch_norm.default]}
        traced = make_fx(normed, decomposition_table=table)(*(each.clone() for each in inputs))
        others = [each.clone() for each in inputs]
        self.assertEqual(traced(*others)[:3], normed(*inputs)[:3])
        self.assertEqual(others, inputs)


if __name__ == "__main__":
    run_tests()
