"""What nobody hears of when it is broken: versions, overwritten saved tensors, layouts of tangents, names.

Each of these holds in eager, and of compiled code users rely on it without looking.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import aot_function
from torch import nn
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import aot_export_module, make_boxed_func

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.aot.base import AotTestCase, ramp

OVERWRITTEN = "modified by an inplace operation"
#: The state of ``SignatureTest.Nested``, in the order of a module: its own first, then its children's.
PARAMETERS = ["own", "last.weight", "last.bias", "first.weight"]
BUFFERS = ["kept", "counted"]


class VersionsTest(AotTestCase):
    """Version counters after compiled code has written, or has not."""

    def versions(self, run, inputs):
        """How far the version of each input moves in a call."""
        before = [each._version for each in inputs]
        run(*inputs)
        return [each._version - was for each, was in zip(inputs, before, strict=True)]

    def check(self, function, make, written):
        """Check which versions move, in eager and compiled, in a first call and in a second."""
        for kept in (True, False):
            compiled, _ = self.compile(function, keep_input_mutations=kept)
            dynamo = torch.compile(function, backend="aot_eager", fullgraph=True)
            for run in (function, compiled, dynamo):
                for call in range(2):
                    moved = self.versions(run, make())
                    with self.subTest(kept=kept, call=call):
                        self.assertEqual([by > 0 for by in moved], written)
            torch._dynamo.reset()

    def test_writes(self):
        def function(read, written, both, view):
            written.add_(read)
            view[0].mul_(2)
            return both.sin_() + read

        self.check(function, lambda: [ramp(3), ramp(3), ramp(3), ramp(2, 3)], [False, True, True, True])

    def test_writes_without_gradients(self):
        """To tensors that require gradients, where autograd does not look."""

        def function(x, y):
            with torch.no_grad():
                x.add_(1)
            return y * 2

        self.check(function, lambda: [ramp(3).requires_grad_(), ramp(3).requires_grad_()], [True, False])

    def test_a_write_under_the_graph_is_noticed_outside(self):
        """A tensor that eager code has saved and compiled code writes to is refused in eager's backward."""

        def writes(x):
            x.add_(1)
            return x * 2

        for kept in (True, False):
            compiled, _ = self.compile(writes, keep_input_mutations=kept)
            for run in (writes, compiled, torch.compile(writes, backend="aot_eager")):
                weight, x = ramp(3).requires_grad_(), ramp(3)
                loss = (weight * x).sum()
                run(x)
                with self.assertRaisesRegex(RuntimeError, OVERWRITTEN):
                    loss.backward()
            torch._dynamo.reset()


class SavedTensorsTest(AotTestCase):
    """What a compiled forward has saved, when somebody writes to it before the backward."""

    def check(self, function, overwrite, *, refused):
        """Call, ``overwrite(inputs, output)`` and go backward, in eager and compiled, twice."""
        for run in (function, self.compile(function)[0], torch.compile(function, backend="aot_eager")):
            for _ in range(2):
                inputs = [ramp(3).requires_grad_(), ramp(3, start=2)]
                output = run(*inputs)
                with torch.no_grad():
                    overwrite(inputs, output)
                if refused:
                    with self.assertRaisesRegex(RuntimeError, OVERWRITTEN):
                        output.sum().backward()
                else:
                    output.sum().backward()

    def test_an_input(self):
        self.check(lambda x, y: x * y, lambda inputs, output: inputs[1].add_(1), refused=True)

    def test_an_input_that_is_not_saved(self):
        self.check(lambda x, y: x * 2 + y, lambda inputs, output: inputs[1].add_(1), refused=False)

    def test_an_output(self):
        self.check(lambda x, y: x.exp(), lambda inputs, output: output.add_(1), refused=True)

    def test_an_output_that_is_not_saved(self):
        self.check(lambda x, y: x + y, lambda inputs, output: output.add_(1), refused=False)

    def test_gradients_a_second_time(self):
        """What was saved is gone after a backward, unless it is kept, as often as it is asked for."""
        for function in (lambda x: (x * x).sin(),):
            for run in (function, self.compile(function)[0], torch.compile(function, backend="aot_eager")):
                x = ramp(3).requires_grad_()
                loss = run(x).sum()
                found = [torch.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(3)]
                for each in found:
                    self.assertEqual(each, 2 * x * (x * x).cos())
                loss.backward()
                with self.assertRaisesRegex(RuntimeError, "backward through the graph a second time|freed"):
                    loss.backward()


class DonatedTensorsTest(AotTestCase):
    """What the forward keeps for the backward alone, which may write to it; what others have, it may not."""

    def check(self, function, *, donated):
        """Check a backward that is to be run again, after one that was not: a donation forbids it."""

        def loss(run, x):
            return sum(each.sum() for each in run(x))

        x, own = (ramp(2, 3).requires_grad_() for _ in range(2))
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        with functorch_config.patch(donated_buffer=True):
            loss(compiled, x).backward()
            again = loss(compiled, x)
            if donated:
                with self.assertRaisesRegex(RuntimeError, "donated buffer"):
                    again.backward(retain_graph=True)
            else:
                again.backward(retain_graph=True)
                again.backward()
        (loss(function, own) * (1 if donated else 3)).backward()
        self.assertEqual(x.grad, own.grad)
        torch._dynamo.reset()

    def test_intermediates(self):
        self.check(lambda x: [(x @ x.t()).sin()], donated=True)

    def test_outputs_and_inputs(self):
        def function(x):
            y = x @ x.t()
            return y, y.sin(), x.sin()

        self.check(function, donated=False)
        self.check(lambda x: [(y := x @ x.t())[0], y.sin()], donated=False)


class TangentsTest(AotTestCase):
    """Gradients of outputs that come in another layout than the outputs have."""

    def compiled(self, function):
        """The function compiled, and the strides of the tangents that its backward gets, call by call."""
        strides = []

        def backward(graph, _):
            places = [
                n for n, node in enumerate(graph.graph.find_nodes(op="placeholder")) if "tangent" in node.name
            ]

            def run(inputs):
                strides.append([inputs[place].stride() for place in places])
                return graph(*inputs)

            run._boxed_call = True
            return run

        return aot_function(function, lambda graph, _: make_boxed_func(graph), backward), strides

    def layouts(self, like):
        """The same numbers in other layouts, and expanded ones."""
        numbers = torch.arange(float(like.numel())).reshape(like.shape)
        yield numbers.clone()
        yield numbers.transpose(0, -1).contiguous().transpose(0, -1)
        yield torch.stack([numbers, numbers], -1)[..., 0]
        yield torch.ones(()).expand(like.shape)

    def check(self, function, x, strides):
        """Check gradients for tangents of each layout; the backward gets them with these ``strides``."""
        compiled, seen = self.compiled(function)
        for tangent in self.layouts(function(x)):
            with self.subTest(tangent=tangent.stride()):
                ours, theirs = (x.detach().clone(memory_format=torch.preserve_format) for _ in range(2))
                compiled(ours.requires_grad_()).backward(tangent)
                function(theirs.requires_grad_()).backward(tangent)
                self.assertEqual(ours.grad, theirs.grad)
        self.assertEqual(seen, [[strides]] * 4)

    def test_contiguous_outputs(self):
        self.check(lambda x: x.sin() * x, ramp(2, 3, 4), (12, 4, 1))

    @unittest.skipUnless(torch_at_least("2.12"), "torch 2.11 makes such tangents contiguous")
    def test_transposed_outputs(self):
        self.check(lambda x: (x.sin() * x).transpose(0, 2), ramp(4, 3, 2), (1, 2, 6))

    def test_transposed_outputs_where_layouts_are_not_guessed(self):
        """Tangents are contiguous, or in channels last where the output is, but not as it lies."""
        with functorch_config.patch(guess_tangent_strides_as_outputs=False):
            self.check(lambda x: (x.sin() * x).transpose(0, 2), ramp(4, 3, 2), (12, 4, 1))
            x = ramp(2, 3, 4, 5).to(memory_format=torch.channels_last)
            self.check(lambda x: x.sin() * x, x, (60, 1, 15, 3))

    def test_outputs_in_channels_last(self):
        x = ramp(2, 3, 4, 5).to(memory_format=torch.channels_last)
        self.check(lambda x: x.sin() * x, x, (60, 1, 15, 3))

    def test_layouts_of_outputs(self):
        """They are eager's, so that what follows finds the memory that it expects."""
        functions = {
            "transposed": lambda x: (x * 2).transpose(0, 1),
            "expanded": lambda x: x.sum(0, keepdim=True).expand(3, 4),
            "channels last": lambda x: x.reshape(1, 3, 2, 2).to(memory_format=torch.channels_last) * 2,
            "every other column": lambda x: (x * 2)[:, ::2],
        }
        for name, function in functions.items():
            for grad in (False, True):
                x = ramp(3, 4).requires_grad_(grad)
                found, expected = self.compile(function)[0](x), function(x)
                with self.subTest(name, grad=grad):
                    self.assertEqual(found, expected, exact_stride=True)
                    self.assertEqual(found.storage_offset(), expected.storage_offset())


class SignatureTest(AotTestCase):
    """The names by which an exported graph says what its inputs and outputs are."""

    class Nested(nn.Module):
        """Two layers of one shape, a parameter between them that has none of their names, and two buffers."""

        def __init__(self):
            super().__init__()
            self.last = nn.Linear(2, 2)
            self.own = nn.Parameter(torch.ones(2))
            self.first = nn.Linear(2, 2, bias=False)
            self.register_buffer("kept", torch.ones(2))
            self.register_buffer("counted", torch.zeros(2))

        def forward(self, x, y):
            self.counted.add_(1)
            hidden = self.first(x) * self.own + self.kept
            return (self.last(hidden).sum() + y.sum(), hidden.detach())

    def exported(self, joint):
        module = self.Nested()
        graph, signature = aot_export_module(
            module, (ramp(3, 2), ramp(2)), trace_joint=joint, output_loss_index=0 if joint else None
        )
        names = [node.name for node in graph.graph.find_nodes(op="placeholder")]
        return graph, signature, names

    def test_inputs(self):
        for joint in (False, True):
            _, signature, names = self.exported(joint)
            count = len(PARAMETERS)
            with self.subTest(joint=joint):
                self.assertEqual(signature.parameters, PARAMETERS)
                self.assertEqual(signature.buffers, BUFFERS)
                self.assertEqual(signature.inputs_to_parameters, dict(zip(names, PARAMETERS, strict=False)))
                self.assertEqual(signature.inputs_to_buffers, dict(zip(names[count:], BUFFERS, strict=False)))
                self.assertEqual(signature.user_inputs, names[count + 2 :])
                self.assertEqual(len(names), count + 4)

    def test_outputs(self):
        for joint in (False, True):
            graph, signature, _ = self.exported(joint)
            (returned,) = graph.graph.output_node().args
            outputs = [node.name for node in returned]
            with self.subTest(joint=joint):
                self.assertEqual(signature.buffers_to_mutate, {outputs[0]: "counted"})
                self.assertEqual(signature.user_inputs_to_mutate, {})
                self.assertEqual(signature.user_outputs, outputs[1:3])
                if joint:
                    gradients = signature.backward_signature.gradients_to_parameters
                    self.assertEqual(gradients, dict(zip(outputs[3:], PARAMETERS, strict=True)))
                    self.assertEqual(signature.backward_signature.gradients_to_user_inputs, {})
                else:
                    self.assertIsNone(signature.backward_signature)
                    self.assertEqual(len(outputs), 3)


if __name__ == "__main__":
    run_tests()
