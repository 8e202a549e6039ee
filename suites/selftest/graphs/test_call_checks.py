"""A compiled function is called again: what the first call left behind is noticed."""

from __future__ import annotations

import unittest
from typing import Any

import torch

from harness.graphs import AotFunction, Compilation, FrontEnd, verify_aot
from harness.graphs.call_checks import FirstOutputs
from harness.graphs.observation import Observation, PreparedCall, observe
from suites.selftest.graphs.verifying import Changed, Function, VerifyTestCase, from_second_on, triple


def into_first(first: list[Any], outputs: list[Any]) -> list[Any]:
    """Writes to what it returned first."""
    for one, output in zip(first, outputs, strict=True):
        if isinstance(one, torch.Tensor):
            one.detach().copy_(output)
    return first


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


if __name__ == "__main__":
    unittest.main()
