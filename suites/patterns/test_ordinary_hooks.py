"""Ordinary autograd hooks under compiled autograd: they see and change what they see and change in eager.

Hooks of leaves and of intermediates, before and after accumulation, on nodes, several in order, removed ones;
and compiled autograd itself: on and off inside of itself, and after an exception.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch._dynamo import compiled_autograd
from torch._dynamo.testing import CompileCounter

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.patterns.base import PatternTestCase, autograd_compiled_by

#: Backwards of one model, whose gradients add up.
STEPS = 3


class OrdinaryHooksTest(PatternTestCase):
    """Each program runs in eager and under compiled autograd, with a backend and as captured."""

    def check(self, program, *, compiled=STEPS, by_dynamo=True):
        """Check that ``program(step, seen)`` returns and sees the same; it notes in ``seen`` what hooks get.

        ``compiled`` is how many backwards compiled autograd has to get; ``by_dynamo`` whether its graphs are
        compiled as well as captured.
        """
        expected, expected_seen = self.run_steps(program)
        ways, counter = {"captured": lambda graph: graph}, CompileCounter()
        if by_dynamo:
            ways["compiled"] = lambda graph: torch.compile(graph, backend=counter)
        for name, around in ways.items():
            calls = []

            def compiler(graph, around=around, calls=calls):
                run = around(graph)

                def counted(*args, **kwargs):
                    calls.append(graph)
                    return run(*args, **kwargs)

                return counted

            torch._dynamo.reset()
            with self.subTest(name), autograd_compiled_by(compiler):
                found, seen = self.run_steps(program)
                self.assertEqual(found, expected)
                self.assertEqual(seen, expected_seen)
                self.assertEqual(len(calls), compiled)
        self.assertEqual(counter.frame_count > 0, by_dynamo)

    def run_steps(self, program):
        seen = []
        return [program(step, seen) for step in range(STEPS)], seen

    def test_hooks_of_leaves(self):
        """The first changes what the second sees; each step has another number."""

        def program(step, seen):
            x = torch.arange(1.0, 4).requires_grad_()
            x.register_hook(lambda grad: seen.append(grad.clone()))
            x.register_hook(lambda grad: grad * (step + 2))
            x.register_hook(lambda grad: seen.append(grad.clone()))
            (x * x).sum().backward()
            return x.grad

        self.check(program)

    def test_hooks_of_intermediates(self):
        def program(step, seen):
            x = torch.arange(1.0, 4).requires_grad_()
            y = x.sin()
            y.register_hook(lambda grad: grad + step)
            y.register_hook(lambda grad: seen.append(grad.clone()))
            y.retain_grad()
            (y * y).sum().backward()
            return x.grad, y.grad

        self.check(program)

    def test_hooks_that_are_removed(self):
        def program(step, seen):
            x = torch.arange(1.0, 4).requires_grad_()
            handles = [x.register_hook(lambda grad, by=by: grad * by) for by in (2, 3, 5)]
            handles[step].remove()
            x.exp().sum().backward()
            return x.grad

        # torch 2.11 takes the first step's compiled graph, and so its hooks, for the other steps.
        self.check(program, by_dynamo=torch_at_least("2.12"))

    def test_hooks_after_accumulation(self):
        """They find the gradient that has been added up, and may take it away."""
        x = torch.arange(1.0, 4).requires_grad_()
        kept = []

        def after(parameter):
            kept[-1].append(parameter.grad.clone())
            if len(kept[-1]) == 2:
                parameter.grad = None

        x.register_post_accumulate_grad_hook(after)

        def program(step, seen):
            if step == 0:
                x.grad = None
                kept.append([])
            (x * (step + 1)).sum().backward()
            return None if x.grad is None else x.grad.clone()

        self.check(program)
        self.assertEqual(len(kept), 3)
        self.assertEqual(kept[1:], [kept[0]] * 2)
        self.assertEqual([len(each) for each in kept], [STEPS] * 3)

    def test_hooks_of_nodes(self):
        def program(step, seen):
            x = torch.arange(1.0, 4).requires_grad_()
            y = x.sin()
            y.grad_fn.register_prehook(lambda grads: (grads[0] * (step + 2),))
            y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + outputs[0],))
            (y * 3).sum().backward()
            return x.grad

        self.check(program)

    def test_hooks_of_modules(self):
        """Full backward hooks, on one of two layers, with the numbers of the forward."""

        def program(step, seen):
            torch.manual_seed(step)
            model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))

            def after(module, grads_in, grads_out):
                seen.append(grads_out[0].clone())
                return (grads_in[0] * 2,)

            model[1].register_full_backward_hook(after)
            model[1].register_full_backward_pre_hook(lambda module, grads: (grads[0] + 1,))
            model(torch.ones(4, 3)).square().sum().backward()
            return [parameter.grad for parameter in model.parameters()]

        self.check(program)

    def test_saved_tensors_that_are_packed(self):
        def program(step, seen):
            x = torch.arange(1.0, 4).requires_grad_()
            packing = torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2)
            with packing:
                y = (x * x).sin()
            y.sum().backward()
            return x.grad

        self.check(program)

    def test_gradients_that_add_up(self):
        """The same leaf in several backwards, and twice in one; a gradient that is there from before."""
        x = torch.arange(1.0, 4).requires_grad_()

        def program(step, seen):
            if step == 0:
                x.grad = torch.full((3,), 10.0)
            (x * x + x.exp()).sum().backward()
            return x.grad.clone()

        self.check(program)

    def test_gradients_by_inputs(self):
        """``backward(inputs=...)`` leaves the others alone."""

        def program(step, seen):
            x, y = (torch.arange(1.0, 4).requires_grad_() for _ in range(2))
            (x * y.sin()).sum().backward(inputs=[(x, y)[step % 2]])
            return x.grad, y.grad

        self.check(program)


class RegionsTest(PatternTestCase):
    """Where compiled autograd is on."""

    def backward(self, times=1):
        """A backward through one or more operators: what is captured of one is kept, and serves no other."""
        x = torch.arange(1.0, 4).requires_grad_()
        result = x
        for _ in range(times):
            result = result * result.detach()
        result.sum().backward()
        expected = torch.arange(1.0, 4).pow(2**times - 1)
        self.assertEqual(x.grad, expected)

    def counted(self):
        counter = CompileCounter()
        return counter, autograd_compiled_by(
            lambda graph: torch.compile(graph, backend=counter, fullgraph=True)
        )

    def test_off_again(self):
        for _ in range(2):
            torch._dynamo.reset()
            counter, region = self.counted()
            self.backward()
            self.assertEqual(counter.frame_count, 0)
            with region:
                self.backward()
            self.assertEqual(counter.frame_count, 1)
            torch._dynamo.reset()
            self.backward()
            self.assertEqual(counter.frame_count, 1)

    def test_off_after_an_exception(self):
        counter, region = self.counted()
        with self.assertRaises(ZeroDivisionError), region:
            raise ZeroDivisionError
        self.assertFalse(compiled_autograd.in_compiled_autograd_region)
        self.backward()
        self.assertEqual(counter.frame_count, 0)

    def test_one_in_the_other(self):
        """The inner one's compiler gets what is inside of it, and the outer one's what follows."""
        outer, around = self.counted()
        inner, within = self.counted()
        with around:
            with within:
                self.backward()
            self.assertEqual((outer.frame_count, inner.frame_count), (0, 1))
            self.backward(2)
        self.assertEqual((outer.frame_count, inner.frame_count), (1, 1))

    def test_off_inside(self):
        counter, region = self.counted()
        with region:
            with compiled_autograd._disable():
                self.backward()
            self.assertEqual(counter.frame_count, 0)
            self.backward()
        self.assertEqual(counter.frame_count, 1)

    def test_on_again_after_a_hook_that_raises(self):
        """The error is the hook's; the next backward is compiled and right."""
        counter, region = self.counted()

        def fails(grad):
            raise ZeroDivisionError("of the hook")

        with region:
            x = torch.ones(2).requires_grad_()
            x.register_hook(fails)
            # Dynamo, which traces the hook, may wrap its error.
            with self.assertRaisesRegex((ZeroDivisionError, RuntimeError), "of the hook"):
                x.sin().sum().backward()
            self.assertFalse(compiled_autograd.in_compiled_autograd_region)
            before = counter.frame_count
            self.backward(2)
            self.assertEqual(counter.frame_count, before + 1)


if __name__ == "__main__":
    run_tests()
