"""Checks of the second call of a compiled function: its results, its graphs, and the first call's outputs."""

from __future__ import annotations

import unittest
from typing import Any

import torch

from harness.graphs import AotFunction, Compilation, FrontEnd, verify_aot
from harness.graphs.call_checks import FirstOutputs
from harness.graphs.observation import Observation, PreparedCall, observe
from suites.selftest.graphs.verifying import Changed, Function, VerifyTestCase, from_second_on, triple


def into_first(first: list[Any], outputs: list[Any]) -> list[Any]:
    """Write the outputs into those of the first call and return the latter."""
    for one, output in zip(first, outputs, strict=True):
        if isinstance(one, torch.Tensor):
            one.detach().copy_(output)
    return first


class SecondCallTest(VerifyTestCase):
    """The second call of a compiled function."""

    def test_other_values(self) -> None:
        """A second call with other results than eager's is found, and the message says which call it was."""
        message = self.assertDiffers(
            "the output: values differ: at [0] 6.0 compiled, 3.0 in eager (2 of 2 elements)",
            function=triple,
            inputs=[torch.ones(2)],
            requires_grad=None,
            backend=from_second_on(lambda first, outputs: [2 * output for output in outputs]),
        )
        self.assertIn("input mutations in the graph, second call):", message)

    def test_static_outputs(self) -> None:
        """A second call that returns the memory of the first call's outputs is found, whatever the values."""
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
        """A second call that changes the first call's outputs is found, though its own are separate."""

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
        """Outputs that are inputs, and tensors that eager returns in each call, may be returned again."""
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
        """A second call has to compile no further graph, and to run what was compiled."""

        class Again(FrontEnd):
            """A front end that compiles at each call."""

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
        """An error of the second call has a note that says so."""

        def raises(first: list[Any], outputs: list[Any]) -> list[Any]:
            raise RuntimeError("only once")

        with self.assertRaisesRegex(RuntimeError, "only once") as caught:
            verify_aot(triple, [torch.ones(2)], backend=from_second_on(raises))
        said = "\n".join([*caught.exception.args, *getattr(caught.exception, "__notes__", ())])
        self.assertIn("This is a later call of what was compiled: second call.", said)

    def test_random_numbers(self) -> None:
        """Each call draws the random numbers that eager draws, whatever the caller's generator state."""
        torch.manual_seed(3)
        verify_aot(lambda a: a + torch.rand(2), [torch.ones(2)])
        verify_aot(lambda a: a + torch.rand(2), lambda: ([], [torch.rand(2)]))


if __name__ == "__main__":
    unittest.main()
