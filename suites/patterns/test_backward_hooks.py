"""Gradient hooks under compiled autograd: closures over intermediates, and modules' backward hooks."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import torch_at_least
from suites.patterns.base import ROUNDS, PatternTestCase, autograd_compiled_by, fullgraph, steps

SEED = 1234
#: Compiles without inductor, whose code is the matter of one test.
by_aot = partial(fullgraph, backend="aot_eager")
#: Operations in the two graphs of the backward; torch 2.13. It moves with many releases.
BACKWARD_OPS = 111


@dataclass
class Holder:
    """What a hook closes over besides tensors."""

    val: Tensor


def with_backward_hooks(*, allow_eager):
    """Return a linear layer whose backward hooks count themselves and change gradients, and an input.

    Without ``allow_eager`` the hooks raise unless dynamo is tracing them.
    """
    torch.manual_seed(SEED)
    model = nn.Linear(10, 10)
    model.hook_count_pre = torch.tensor(0)
    model.hook_count_post = torch.tensor(0)

    def check(module):
        assert allow_eager or torch._dynamo.is_compiling(), "the hook runs outside of any graph"
        assert module.weight.shape == (10, 10)

    def before(module, grads):
        check(module)
        module.hook_count_pre.add_(1)
        return (torch.sin(grads[0] + 1.2),)

    def after(module, grads_in, grads_out):
        check(module)
        module.hook_count_post.add_(1)
        return (torch.sin(grads_in[0] + 3.4),)

    model.register_full_backward_pre_hook(before)
    model.register_full_backward_hook(after)
    return model, torch.rand(2, 10, requires_grad=True)


class DistributedPatternTests(PatternTestCase):
    """Hooks that FSDP would hang on a module, traced into the compiled backward."""

    def test_intermediate_hook_with_closure(self):
        def function(x, holder):
            y = x.sin()
            closed_over = y + 1
            y.register_hook(lambda grad: grad + holder.val + closed_over)
            return y.sin()

        def gradient(run, holder):
            x = torch.ones(4, requires_grad=True)
            run(x, holder).sum().backward()
            return x.grad

        first, second = Holder(torch.tensor(88)), Holder(torch.tensor(99))
        expected = [gradient(function, holder) for holder in (first, second)]
        self.assertNotEqual(expected[0], expected[1])
        with autograd_compiled_by(by_aot), self.compiles(aot_eager=2):
            actual = [gradient(by_aot(function), holder) for holder in (first, second)]
        self.assertEqual(actual, expected)

    def check_same(self, model, inputs, output, reference, reference_inputs, reference_output):
        for one, other in zip(_hooked(model), _hooked(reference), strict=True):
            self.assertEqual(int(one.hook_count_pre), ROUNDS)
            self.assertEqual(int(one.hook_count_post), ROUNDS)
            self.assertEqual(int(other.hook_count_pre), ROUNDS)
        self.assertEqual(output, reference_output)
        self.assertEqual(inputs.grad, reference_inputs.grad)
        self.assert_same_gradients(model, reference)

    def check_hooks(self, *, forward, backward, allow_eager, graphs):
        """Compare a module that is compiled, forward and backward, with the same one in eager.

        ``graphs`` are how many each backend gets.
        """
        reference, reference_inputs = with_backward_hooks(allow_eager=True)
        reference_output = steps(reference, reference_inputs)
        model, inputs = with_backward_hooks(allow_eager=allow_eager)
        with autograd_compiled_by(backward), self.compiles(**graphs):
            output = steps(forward(model), inputs)
        self.check_same(model, inputs, output, reference, reference_inputs, reference_output)

    def test_module_backward_hooks_eager(self):
        forward, backward = CompileCounter(), CompileCounter()
        self.check_hooks(
            forward=lambda model: fullgraph(model, forward),
            backward=lambda graph: fullgraph(graph, backward),
            allow_eager=False,
            graphs={"eager": 3},
        )
        self.assertEqual((forward.frame_count, forward.op_count), (1, 5))
        self.assertEqual(backward.frame_count, 2)  # without a gradient to add to, and with one
        if torch_at_least("2.13"):
            self.assertEqual(backward.op_count, BACKWARD_OPS)
        else:
            self.assertGreater(backward.op_count, 0)

    def test_module_backward_hooks_aot(self):
        """Compiled autograd's graphs are run as they were captured: so hooks run in eager, once each time."""
        graphs = []

        def as_captured(graph):
            graphs.append(graph)
            return graph

        self.check_hooks(
            forward=lambda model: fullgraph(model, "aot_eager"),
            backward=as_captured,
            allow_eager=True,
            graphs={"aot_eager": 1},
        )
        self.assertEqual(len(graphs), 2)

    def test_module_backward_hooks_inductor(self):
        self.check_hooks(forward=fullgraph, backward=fullgraph, allow_eager=False, graphs={"inductor": 3})

    def test_module_backward_hooks_multi_layers(self):
        def two(*, allow_eager):
            first, inputs = with_backward_hooks(allow_eager=allow_eager)
            second, _ = with_backward_hooks(allow_eager=allow_eager)
            return nn.Sequential(first, second), inputs

        reference, reference_inputs = two(allow_eager=True)
        reference_output = steps(reference, reference_inputs)
        model, inputs = two(allow_eager=False)
        with autograd_compiled_by(by_aot), self.compiles(aot_eager=3):
            output = steps(by_aot(model), inputs)
        self.check_same(model, inputs, output, reference, reference_inputs, reference_output)

    def test_hooks_that_eager_would_run_are_refused(self):
        """The hooks notice eager: without this, they would count and change as well outside of any graph."""
        model, inputs = with_backward_hooks(allow_eager=False)
        with self.assertRaisesRegex(AssertionError, "outside of any graph"):
            steps(model, inputs)


def _hooked(model):
    return [module for module in model.modules() if isinstance(module, nn.Linear)]


if __name__ == "__main__":
    run_tests()
