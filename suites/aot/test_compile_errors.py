"""What the compiler says to functions that have no graph, and to back ends that do not do their part."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import aot_function, make_boxed_func
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from harness import UsageError, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import UnbackedSize, verify_aot
from suites.aot.base import ramp
from suites.aot.refusals import RefusalTestCase


def unchanged(graph, _):
    return make_boxed_func(graph)


class Unknown:
    """A type that no compiler has heard of."""


class FunctionErrorsTest(RefusalTestCase):
    """Functions that cannot be compiled ahead of time."""

    def test_output_of_unknown_type(self):
        def f(a):
            return a + 1, Unknown()

        compiled, capture = self.compile(f)
        with self.refused(RuntimeError, f"Found {Unknown} in output, which is not a known type."):
            compiled(ramp(3))
        self.assertEqual(capture.graphs, [])
        with self.refused(
            UsageError, "output 1 is a Unknown: a function that is compiled ahead of time returns"
        ):
            self.verify(f, [ramp(3)])

    def test_outputs_without_tensors(self):
        # Numbers, strings and None go beside the graph.
        compiled, capture = self.compile(lambda a: (a + 1, "text", 3, None, True))
        result, *others = compiled(ramp(3))
        self.assertEqual(result, ramp(3) + 1)
        self.assertEqual(others, ["text", 3, None, True])
        self.assertEqual(len(capture.graphs[0].outputs), 5)
        compiled, capture = self.compile(lambda a: None)
        self.assertIsNone(compiled(ramp(3)))
        self.assertEqual([graph.role for graph in capture.graphs], ["inference"])

    def test_input_of_unknown_type(self):
        compiled, _ = self.compile(lambda a, b: a + 1)
        with self.refused(AssertionError, "all flat_args must be KNOWN_TYPES"):
            compiled(ramp(3), Unknown())

    def test_integers_that_require_grad(self):
        with self.refused(RuntimeError, "only Tensors of floating point dtype can require gradients"):
            torch.ones(3, dtype=torch.int64).requires_grad_()
        with self.refused(UsageError, "tensor 0 of the inputs is int64 and cannot require grad"):
            self.verify(lambda a: a + 1, [torch.arange(3)], requires_grad=True)
        # Among others they pass through, and have no gradient.
        result = self.verify(lambda a, b: a * b, [torch.arange(3), ramp(3)], requires_grad=[False, True])
        self.assertEqual(result.backward.graph.output_node().args[0][0], None)

    def test_number_from_data(self):
        def scaled(a):
            return a * a.sum().item()

        def positive(a):
            return a + 1 if a.sum() > 0 else a

        static, _ = self.compile(scaled)
        with self.refused(DataDependentOutputException, "aten._local_scalar_dense.default"):
            static(ramp(3))
        with self.refused(UnbackedSize, "the function needs a size or number that is only known from data"):
            self.verify(scaled, [ramp(3)])
        # With symbols a number is one more value; a branch on it has no graph.
        dynamic, _ = self.compile(scaled, dynamic=True)
        self.assertEqual(dynamic(ramp(3)), 6 * ramp(3))
        self.assertEqual(dynamic(ramp(4)), 10 * ramp(4))
        branching, _ = self.compile(positive, dynamic=True)
        with self.refused(
            GuardOnDataDependentSymNode, "Could not guard on data-dependent expression Eq(u0, 1)"
        ):
            branching(ramp(3))

    def test_size_from_data(self):
        def places(a):
            return a.nonzero()

        static, _ = self.compile(places)
        with self.refused(DynamicOutputShapeException, "aten.nonzero.default"):
            static(ramp(3))
        with self.refused(UnbackedSize, "the function needs a size or number that is only known from data"):
            self.verify(places, [ramp(3)])
        dynamic, _ = self.compile(places, dynamic=True)
        for count in (3, 5):
            x = ramp(count) - 2
            self.assertEqual(dynamic(x), torch.tensor([[i] for i in range(count) if i != 1]))

    def test_error_of_the_function(self):
        given = []

        def f(a):
            given.append(type(a))
            return a.view(7)

        compiled, capture = self.compile(f)
        for run in (f, compiled):
            with self.refused(RuntimeError, "shape '[7]' is invalid for input of size 3"):
                run(ramp(3))
        # Wrong shapes are found when the function is traced, with the words that eager has for them.
        self.assertEqual(
            [given[0], *{each.__name__ for each in given[1:]}], [torch.Tensor, "FunctionalTensor"]
        )
        self.assertEqual(capture.graphs, [])

    def test_write_to_leaf(self):
        def f(a):
            return a.mul_(2)

        with self.refused(
            RuntimeError, "a leaf Variable that requires grad is being used in an in-place operation"
        ):
            f(ramp(3).requires_grad_())
        # Compiled it is written to, and no one is told.
        compiled, _ = self.compile(f)
        x = ramp(3).requires_grad_()
        self.assertEqual(compiled(x), 2 * ramp(3))
        self.assertEqual(x, 2 * ramp(3))
        self.assertTrue(x.is_leaf)


class CompilerErrorsTest(RefusalTestCase):
    """Compilers of graphs that fail, and when their user sees it."""

    def test_failing_compiler(self):
        def failing(graph, _):
            raise NotImplementedError(f"no code for {len(graph.graph.nodes)} nodes")

        x = ramp(3).requires_grad_()
        with self.refused(NotImplementedError, "no code for 3 nodes"):
            aot_function(torch.sin, failing)(x.detach())
        result = aot_function(torch.sin, unchanged, failing)(x)
        self.assertEqual(result, torch.sin(x))
        with self.refused(NotImplementedError, "no code for 5 nodes"):
            result.sum().backward()

    def test_compiled_graph_with_too_few_outputs(self):
        def forgetful(graph, _):
            return make_boxed_func(lambda *inputs: graph(*inputs)[:-1])

        for requires_grad in (False, True):
            compiled = aot_function(lambda a: (a + 1, a + 2), forgetful)
            with self.subTest(requires_grad), self.refused(AssertionError, "expected 2 outputs, got 1"):
                compiled(ramp(3).requires_grad_(requires_grad))

    def test_wrong_compiled_graph_is_found(self):
        def doubling(graph, _):
            return make_boxed_func(lambda *inputs: tuple(2 * output for output in graph(*inputs)))

        with self.assertRaisesRegex(AssertionError, r"(?m)^  the output: values differ"):
            verify_aot(torch.sin, [ramp(3)], backend=(doubling, unchanged), requires_grad=True)
        with self.assertRaisesRegex(AssertionError, r":\n  gradient of input 0 through the output: values"):
            verify_aot(torch.sin, [ramp(3)], backend=(unchanged, doubling), requires_grad=True)


if __name__ == "__main__":
    run_tests()
