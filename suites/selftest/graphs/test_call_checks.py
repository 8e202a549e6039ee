"""A compiled function is called again: what the first call left behind is noticed."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Sequence
from typing import Any

import torch

from harness import UsageError
from harness.graphs import AotFunction, Compilation, FrontEnd, nop, verify_aot
from harness.graphs.call_checks import FirstOutputs
from harness.graphs.observation import Observation, PreparedCall, observe
from suites.selftest.graphs.verifying import Changed, Function, VerifyTestCase, inputs, writes


def from_second_on(change: Callable[[list[Any], list[Any]], list[Any]]) -> Function:
    """A backend each of whose graphs returns ``change(first outputs, outputs)`` from the second call on."""

    def compiler(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Function:
        first: list[Any] = []

        def run(*arguments: Any) -> list[Any]:
            outputs = list(graph(*arguments))
            if first:
                return change(first, outputs)
            first[:] = outputs
            return outputs

        return run

    return compiler


def into_first(first: list[Any], outputs: list[Any]) -> list[Any]:
    """Writes to what it returned first."""
    for one, output in zip(first, outputs, strict=True):
        if isinstance(one, torch.Tensor):
            one.detach().copy_(output)
    return first


def triple(a: torch.Tensor) -> torch.Tensor:
    """Something new."""
    return a * 3


class SecondCallTest(VerifyTestCase):
    """What a second call of what was compiled shows."""

    def test_other_values(self) -> None:
        """Its differences are said as those of the first call."""
        message = self.assertDiffers(
            "the output: values differ: at [0] 6.0 compiled, 3.0 in eager (2 of 2 elements)",
            function=triple,
            inputs=[torch.ones(2)],
            requires_grad=None,
            backend=from_second_on(lambda first, outputs: [2 * output for output in outputs]),
        )
        self.assertIn("input mutations in the graph, second call):", message)

    def test_static_outputs(self) -> None:
        """Memory of the first call's outputs is used again, with other values and with the same."""
        given: dict[str, Any] = {
            "function": triple,
            "inputs": [torch.ones(2)],
            "requires_grad": None,
            "backend": from_second_on(into_first),
        }
        for write in (False, True):
            self.assertDiffers(
                "the output: shares memory with the output of the first call", test_mutation=write, **given
            )

    def test_written_over(self) -> None:
        """The first call's outputs are, and the second has its own."""

        def call(first: list[Any], outputs: list[Any]) -> list[Any]:
            first[0].zero_()
            return outputs

        self.assertDiffers(
            "the output of the first call: the second call changed its values",
            function=triple,
            inputs=[torch.ones(2)],
            requires_grad=None,
            test_mutation=False,
            backend=from_second_on(call),
        )

    def test_shared_on_purpose(self) -> None:
        """Outputs that are inputs, and what eager hands out each time, are no findings."""
        constant, x = torch.ones(2), torch.ones(2)

        def observed(*outputs: torch.Tensor) -> Observation:
            named = [("input 0", x)]
            return observe(lambda a: list(outputs), PreparedCall(torch.clone, [x], named, []), write=False)

        eager, first = observed(constant, x * 1, x), observed(constant, x * 1, x)
        for what, later, expected in (
            ("as eager", observed(constant, x * 1, x), []),
            ("the first's", first, ["output 1: shares memory with output 1 of the first call"]),
        ):
            with self.subTest(what):
                found = [str(one) for one in FirstOutputs(eager, first).touched_by(later, "second")]
                self.assertEqual(found, expected)

    def test_more_graphs(self) -> None:
        """For the same call nothing more is to be compiled, and what was compiled is to run."""

        class Again(FrontEnd):
            """Compiles at each call."""

            name = "again"

            def compile(self, function: Function, how: Compilation) -> Function:
                return lambda *arguments: AotFunction().compile(function, how)(*arguments)

        plain: dict[str, Any] = {
            "function": triple,
            "inputs": [torch.ones(2)],
            "requires_grad": None,
            "test_mutation": False,
        }
        self.assertDiffers("compilation: 1 more graphs were compiled", front_end=Again(), **plain)
        called = []

        def once(compiled: Function, eager: Function, arguments: tuple[Any, ...]) -> Any:
            called.append(compiled)
            return (eager if compiled in called[:-1] else compiled)(*arguments)

        self.assertDiffers("inference graph: it was compiled and never ran", front_end=Changed(once), **plain)

    def test_errors(self) -> None:
        """Say that they are of a later call."""

        def raises(first: list[Any], outputs: list[Any]) -> list[Any]:
            raise RuntimeError("only once")

        with self.assertRaisesRegex(RuntimeError, "only once") as caught:
            verify_aot(triple, [torch.ones(2)], backend=from_second_on(raises))
        said = "\n".join([*caught.exception.args, *getattr(caught.exception, "__notes__", ())])
        self.assertIn("This is a later call of what was compiled: second call.", said)

    def test_random_numbers(self) -> None:
        """Each call draws what eager draws, wherever the caller's generator stands."""
        torch.manual_seed(3)
        verify_aot(lambda a: a + torch.rand(2), [torch.ones(2)])
        verify_aot(lambda a: a + torch.rand(2), lambda: ([], [torch.rand(2)]))


class MoreInputsTest(VerifyTestCase):
    """``more_inputs``."""

    def test_sizes(self) -> None:
        """Symbolic sizes take others; a list or a callable; one that requires grad where the first does."""
        sizes: list[Any] = [
            [torch.ones(3, 3), torch.ones(3, 3)],
            lambda: ([], [torch.ones(5, 5), torch.ones(5, 5)]),
        ]
        verify_aot(writes, inputs(), dynamic=True, more_inputs=sizes)
        verify_aot(
            writes, inputs(), dynamic=True, requires_grad=True, test_mutation=True, more_inputs=sizes[:1]
        )
        verify_aot(torch.nn.BatchNorm1d(3), [torch.randn(4, 3)], more_inputs=[[torch.ones(4, 3)]])

    def test_differences(self) -> None:
        """A compiler that takes the first values for all."""

        message = self.assertDiffers(
            "the output: values differ: at [0] 3.0 compiled, 6.0 in eager (2 of 2 elements)",
            function=triple,
            inputs=[torch.ones(2)],
            requires_grad=None,
            test_mutation=False,
            backend=from_second_on(lambda first, outputs: [first[0].clone()]),
            more_inputs=[[torch.ones(2)], [torch.full((2,), 2.0)]],
        )
        self.assertIn("input mutations in the graph, more_inputs[1]):", message)

    def test_errors(self) -> None:
        """Of eager come with a note that says which inputs they are of."""
        with self.assertRaisesRegex(RuntimeError, "must match the size") as caught:
            verify_aot(writes, inputs(), more_inputs=[[torch.ones(2, 2), torch.ones(3, 3)]])
        said = "\n".join([*caught.exception.args, *getattr(caught.exception, "__notes__", ())])
        self.assertIn("This is the function itself, in eager: of more_inputs=.", said)

    def test_graphs(self) -> None:
        """What is handed back is of the first call."""
        result = verify_aot(triple, [torch.ones(2)], more_inputs=[[torch.zeros(2)]])
        self.assertEqual(result.returned, torch.full((2,), 3.0))

    def test_usage(self) -> None:
        """A list of inputs, each as the first."""
        for more, text in ((3, "more_inputs=3: give a list"), ([3], "inputs is a int: give a list")):
            with self.subTest(more=more), self.assertRaisesRegex(UsageError, text):
                verify_aot(writes, inputs(), more_inputs=more)  # type: ignore[arg-type]


class ModuleTest(VerifyTestCase):
    """A module is for its second call what it was for the first."""

    def test_state(self) -> None:
        """Buffers that are written to, parameters that are, arguments that are its own."""

        class Counting(torch.nn.Module):  # type: ignore[misc]  # torch is untyped to mypy here
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(2))
                self.mean: torch.Tensor
                self.register_buffer("mean", torch.zeros(4)[:2])

            def forward(self, a: torch.Tensor) -> torch.Tensor:
                self.mean.lerp_(a.detach(), 0.5)
                return a * self.weight + self.mean

        module = Counting()
        given = [torch.full((2,), 3.0), module.weight, module.weight.detach()[1:]]
        for argument in given:
            with self.subTest(argument):
                verify_aot(module, [argument], backend=nop)

    def test_not_restored(self) -> None:
        """One whose buffer is another size afterwards is called once, and with nothing more."""

        class Grows(torch.nn.Module):  # type: ignore[misc]  # torch is untyped to mypy here
            def __init__(self) -> None:
                super().__init__()
                self.seen: torch.Tensor
                self.register_buffer("seen", torch.ones(2, 3))

            def forward(self, a: torch.Tensor) -> torch.Tensor:
                self.seen.t_()
                return a + 1

        verify_aot(Grows(), [torch.ones(2)], keep_input_mutations=True)
        with self.assertRaisesRegex(UsageError, r"more_inputs=: .*Grows cannot be called again"):
            verify_aot(Grows(), [torch.ones(2)], more_inputs=[[torch.ones(2)]])


if __name__ == "__main__":
    unittest.main()
