"""Tracing by dispatch: ``make_fx`` under functorch's transforms, and TorchScript behind ``aot_function``.

The names of classes and tests are those that PyTorch's own device-generic tests have on the CPU.
"""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import nnc_jit
from torch._decomp import decomposition_table
from torch.func import functional_call, functionalize, grad, jacrev, vjp, vmap
from torch.fx import GraphModule, symbolic_trace
from torch.fx.experimental.proxy_tensor import make_fx

from harness import (  # noqa: F401  (unittest calls load_tests)
    instantiate_parametrized_tests,
    load_tests,
    parametrize,
    run_tests,
    subtest,
)
from harness.graphs import graph_text
from harness.targets.current import current
from suites.aot.base import AotTestCase
from suites.aot.models import resnet18

aten = torch.ops.aten
# Named as on the CPU on any target: its tests are the same ones.
on_devices = parametrize("device", [subtest(current().device_type, name="cpu")])


def sum_of_sines(x):
    return torch.sin(x).sum()


def targets(gm):
    """The functions that the graph calls, in order."""
    return [node.target for node in gm.graph.nodes if node.op == "call_function"]


@instantiate_parametrized_tests
class TestPythonKeyCPU(AotTestCase):
    def trace_and_replay(self, f, *shape, device):
        """Trace ``f`` on one random input and compare the trace with ``f`` on another one."""
        traced = make_fx(f)(torch.randn(*shape, device=device))
        self.assertIsInstance(traced, GraphModule)
        other = torch.randn(*shape, device=device)
        self.assertEqual(traced(other), f(other), exact_stride=True)
        return traced, other

    @on_devices
    def test_make_fx(self, device):
        traced, _ = self.trace_and_replay(torch.sin, 3, device=device)
        self.assertExpectedGraph(
            graph_text(traced),
            """\
forward(arg0_1)
  sin = aten.sin.default(arg0_1)
  return sin""",
        )

    @on_devices
    def test_make_fx_grad(self, device):
        traced, x = self.trace_and_replay(grad(sum_of_sines), 3, device=device)
        self.assertEqual(traced(x), torch.cos(x))
        self.assertExpectedGraph(
            graph_text(traced),
            """\
forward(x_1)
  sin = aten.sin.default(x_1)
  sum_1 = aten.sum.default(sin)
  ones_like = aten.ones_like.default(sum_1, pin_memory=False, memory_format=preserve_format)
  expand = aten.expand.default(ones_like, [3])
  cos = aten.cos.default(x_1)
  mul = aten.mul.Tensor(expand, cos)
  return mul""",
        )

    @on_devices
    def test_scalar_device(self, device):
        a, b = torch.randn(3, device=device), torch.tensor(5, device="cpu")
        traced = make_fx(torch.add)(a, b)
        self.assertExpectedGraph(
            graph_text(traced),
            """\
forward(arg0_1, arg1_1)
  add = aten.add.Tensor(arg0_1, arg1_1)
  return add""",
        )
        self.assertEqual(traced(a, b), a + 5, exact_device=True)
        self.assertEqual(traced(a, torch.tensor(-2, device="cpu")), a - 2, exact_device=True)

    @on_devices
    def test_make_fx_vmap(self, device):
        traced, _ = self.trace_and_replay(vmap(torch.sin), 5, 3, device=device)
        self.assertExpectedGraph(
            graph_text(traced),
            """\
forward(arg0_1)
  sin = aten.sin.default(arg0_1)
  return sin""",
        )

    @on_devices
    def test_make_fx_jacrev(self, device):
        traced, x = self.trace_and_replay(jacrev(jacrev(sum_of_sines)), 3, device=device)
        self.assertEqual(traced(x), torch.diag(-torch.sin(x)))
        # Both Jacobians are in the graph: it takes the cosine for the first, the sine again for the second.
        waves = [op for op in targets(traced) if op in (aten.sin.default, aten.cos.default)]
        self.assertEqual(waves, [aten.sin.default, aten.cos.default, aten.sin.default])

    @on_devices
    def test_make_fx_vjp(self, device):
        x = torch.randn(3, device=device)
        _, pull_back = vjp(sum_of_sines, x)
        traced = make_fx(pull_back)(torch.randn((), device=device), True, True)
        cotangent = torch.randn((), device=device)
        (gradient,) = traced(cotangent, True, True)
        self.assertEqual((gradient,), pull_back(cotangent))
        self.assertEqual(gradient, cotangent * torch.cos(x))
        # The point is a constant of the graph, the cotangent its only input.
        self.assertExpectedGraph(
            graph_text(traced),
            """\
forward(cotangents_1, retain_graph_1, create_graph_1)
  expand = aten.expand.default(cotangents_1, [3])
  _tensor_constant0 = self._tensor_constant0
  cos = aten.cos.default(_tensor_constant0)
  mul = aten.mul.Tensor(expand, cos)
  return (mul,)""",
        )

    @on_devices
    def test_make_fx_functionalize(self, device):
        def double_then_clip(x):
            return (x * 2).relu_()

        symbolic = symbolic_trace(double_then_clip)
        self.assertIn("relu_", [node.target for node in symbolic.graph.nodes])
        traced, _ = self.trace_and_replay(functionalize(symbolic), 3, device=device)
        self.assertEqual(targets(traced), [aten.mul.Tensor, aten.relu.default])

    @on_devices
    def test_make_fx_no_decompose(self, device):
        # Upstream has skipped this since 2022, "maximum recursion reached"; the recursion is gone.
        derivative = grad(lambda x: torch.tanh(x).sum())
        traced, x = self.trace_and_replay(derivative, 5, device=device)
        self.assertIn(aten.tanh_backward.default, targets(traced))
        decomposed = make_fx(derivative, decomposition_table=decomposition_table)(x)
        self.assertNotIn(aten.tanh_backward.default, targets(decomposed))
        self.assertEqual(decomposed(x), 1 - torch.tanh(x) ** 2)

    @contextmanager
    def scripting(self, times):
        """A region in which ``torch.jit.script`` is called that many times."""
        with warnings.catch_warnings():
            # TorchScript is deprecated, and says so at each step; it still has to work.
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", message="The TorchScript type system", category=UserWarning)
            with mock.patch("torch.jit.script", wraps=torch.jit.script) as script:
                yield
        self.assertEqual(script.call_count, times)

    @on_devices
    def test_nnc_jit(self, device):
        with self.scripting(times=1):
            scripted = nnc_jit(torch.sin)
            for _ in range(2):
                x = torch.randn(3, device=device)
                self.assertEqual(scripted(x), torch.sin(x))

    @on_devices
    def test_nnc_scalar(self, device):
        with self.scripting(times=1):
            x = torch.randn((), device=device)
            self.assertEqual(nnc_jit(torch.sin)(x), torch.sin(x))

    @on_devices
    def test_nnc_pytrees(self, device):
        with self.scripting(times=1):
            x = torch.randn(3, device=device)
            (result,) = nnc_jit(lambda tensors: [torch.sin(tensors[0])])([x])
            self.assertEqual(result, torch.sin(x))

    @on_devices
    def test_external_calls(self, device):
        with self.scripting(times=1):
            matrix, vector = torch.randn(3, 3, device=device), torch.randn(3, device=device)
            self.assertEqual(nnc_jit(torch.mv)(matrix, vector), (matrix * vector).sum(1))

    @on_devices
    def test_nnc_passthrough(self, device):
        def double_a(tensors):
            tensors["a"] = tensors["a"] * 2
            return tensors

        with self.scripting(times=2):
            x, y = torch.randn(3, device=device), torch.randn(3, device=device)
            result, passed = nnc_jit(lambda x, y: (x + y, y))(x, y)
            self.assertEqual(result, x + y)
            self.assertIs(passed, y)
            tensors = {"a": torch.randn(3, device=device), "b": torch.randn(3, device=device)}
            given = dict(tensors)
            result = nnc_jit(double_a)(tensors)
            # Graphs have no dicts: the caller's stays as it was, other than in eager.
            self.assertIs(tensors["a"], given["a"])
            self.assertEqual(result, double_a(tensors))
            self.assertIs(result["b"], given["b"])

    @on_devices
    @torch.backends.cudnn.flags(enabled=False)  # it has operators of its own for these
    def test_resnet18_backward_trace(self, device):
        network = resnet18(width=8, classes=10).to(device)
        parameters = dict(network.named_parameters())
        images, weight = torch.randn(3, 3, 40, 40, device=device), torch.randn(3, 10, device=device)

        def gradients(parameters, buffers, images):
            scores = functional_call(network, (parameters, buffers), images)
            return torch.autograd.grad((scores * weight).sum(), list(parameters.values()))

        def buffers():
            return {name: buffer.clone() for name, buffer in network.named_buffers()}

        traced = make_fx(gradients)(parameters, buffers(), images)
        calls = targets(traced)
        self.assertEqual(calls.count(aten.convolution_backward.default), 20)
        self.assertEqual(calls.count(aten.native_batch_norm_backward.default), 20)
        # Other images than those of the trace, and the running statistics that the trace was not made with.
        images, updated = torch.randn_like(images), buffers()
        found = traced(parameters, updated, images)
        (network(images) * weight).sum().backward()
        self.assertEqual(found, [parameter.grad for parameter in network.parameters()])
        self.assertEqual(updated, dict(network.named_buffers()))


if __name__ == "__main__":
    run_tests()
