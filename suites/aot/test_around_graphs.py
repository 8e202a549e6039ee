"""What is done around a compiled graph: states that a trace may not leave, tangents that are refused and in
whose name, and inputs that come back as outputs.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import aot_function, nop

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.aot.base import AotTestCase, ramp, two_tensors

OTHER_DTYPE = {torch.bfloat16: torch.float16, torch.float16: torch.bfloat16}


class AutocastTest(AotTestCase):
    """A trace that leaves autocast other than it found it is refused; one that puts it back is not."""

    def test_states_that_a_trace_changes(self):
        for device in ("cpu", "cuda"):
            before = torch.get_autocast_dtype(device)
            for puts_back in (False, True):

                def function(x, device=device, before=before, puts_back=puts_back):
                    torch.set_autocast_dtype(device, OTHER_DTYPE[torch.get_autocast_dtype(device)])
                    y = x * 2
                    if puts_back:
                        torch.set_autocast_dtype(device, before)
                    return y

                compiled = aot_function(function, nop)
                with self.subTest(device, puts_back=puts_back):
                    try:
                        if puts_back:
                            self.assertEqual(compiled(ramp(3)), ramp(3) * 2)
                        else:
                            self.assertRaisesRegex(
                                RuntimeError, "mutate the autocast state", compiled, ramp(3)
                            )
                    finally:
                        torch.set_autocast_dtype(device, before)


class TangentRefusalsTest(AotTestCase):
    """A tangent of another type than was guessed is refused, and said to be of which output of which line."""

    @unittest.skipUnless(torch_at_least("2.12"), "torch 2.11 names no line")
    def test_plain_tangents_of_subclasses(self):
        def function(x, y):
            first = x * 3
            second = y.sin()  # the line to name
            return first, second

        compiled = torch.compile(function, backend="aot_eager")
        outputs = compiled(ramp(3).requires_grad_(), two_tensors(ramp(3)).requires_grad_())
        with self.assertRaisesRegex(RuntimeError, r"(?s)(?=.*tangent)(?=.*y\.sin\(\)  # the line to name)"):
            torch.autograd.backward(outputs, (ramp(3), ramp(3)))


class ReturnedInputsTest(AotTestCase):
    """Inputs that are written to and returned."""

    def test_they_are_the_graphs_outputs(self):
        """All of them, as they are: the graph has no copies of them to return."""

        def function(x, y, z):
            x.add_(1)
            y.mul_(2)
            return x, z * 2, y

        graphs = []

        def compiler(graph, _):
            graphs.append(graph)
            return graph

        inputs = [ramp(3), ramp(4), ramp(2)]
        compiled = aot_function(function, compiler, keep_inference_input_mutations=True)
        x, doubled, y = compiled(*inputs)
        self.assertIs(x, inputs[0])
        self.assertIs(y, inputs[1])
        self.assertEqual((x, doubled, y), (ramp(3) + 1, ramp(2) * 2, ramp(4) * 2))
        returned = graphs[0].graph.find_nodes(op="output")[0].args[0]
        names = [node.target.__name__ for node in returned]
        self.assertEqual(names, ["copy_.default", "mul.Tensor", "copy_.default"])


if __name__ == "__main__":
    run_tests()
