"""``FrontEnd``: what ``verify_aot`` calls of it, and how ``AotFunction`` compiles."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from harness import DynamoTestCase
from harness.graphs import AotFunction, Capture, Compilation, FrontEnd, compilers_of, nop, verify_aot
from suites.selftest.graphs.verifying import Changed, Function, VerifyTestCase, triple


class AotFunctionTest(DynamoTestCase):
    """The front end ``AotFunction``."""

    def compiled(self, function: Function, **options: bool) -> tuple[Function, Capture]:
        """The compiled function, and the capture of its graphs."""
        capture = Capture()
        how = Compilation(capture.around(compilers_of("nop")), **options)
        return AotFunction().compile(function, how), capture

    def test_functions_and_modules(self) -> None:
        """Functions and modules are compiled at their first call, once."""
        for function in (triple, torch.nn.Linear(2, 2)):
            with self.subTest(function=function):
                compiled, capture = self.compiled(function)
                self.assertEqual(capture.graphs, [])
                x = torch.ones(2)
                for _ in range(2):
                    self.assertEqual(compiled(x), function(x))
                self.assertEqual(len([graph for graph in capture.graphs if graph.role != "joint"]), 1)

    def test_dynamic(self) -> None:
        """With ``dynamic`` the sizes in the graph are symbols."""
        for dynamic in (False, True):
            compiled, capture = self.compiled(lambda a: a.expand(a.shape[0], a.shape[0]), dynamic=dynamic)
            compiled(torch.ones(3))
            self.assertEqual("sym_size" in capture.graphs[0].text, dynamic)

    def test_keep_input_mutations(self) -> None:
        """A write to an input is in the graph only if asked for, and happens in both cases."""
        for keep in (False, True):
            compiled, capture = self.compiled(lambda a: a.mul_(2), keep_input_mutations=keep)
            x = torch.ones(2)
            compiled(x)
            self.assertEqual(x, torch.full((2,), 2.0))
            self.assertEqual("aten.copy_.default" in capture.graphs[0].text, keep)


class Recording(AotFunction):
    """A front end with two runs per round that records what is called."""

    name = "recording"
    runs = 2

    def __init__(self) -> None:
        self.events: list[str] = []

    @contextmanager
    def _around(self, what: str) -> Iterator[None]:
        self.events.append(what)
        yield
        self.events.append(f"end of {what}")

    def round(self) -> AbstractContextManager[None]:
        return self._around("round")

    def run(self, number: int) -> AbstractContextManager[None]:
        return self._around(f"run {number}")

    def compile(self, function: Function, how: Compilation) -> Function:
        self.events.append(f"compile {how.keep_input_mutations}")
        return super().compile(function, how)


class HooksTest(VerifyTestCase):
    """What ``verify_aot`` calls of a front end."""

    def test_order(self) -> None:
        """Each run of each round compiles once, within the contexts of its run and its round."""
        front_end = Recording()
        verify_aot(triple, [torch.ones(2)], front_end=front_end)
        expected: list[str] = []
        for keep in (True, False):
            expected.append("round")
            for run in ("run 0", "run 1"):
                expected += [run, f"compile {keep}", f"end of {run}"]
            expected.append("end of round")
        self.assertEqual(front_end.events, expected)

    def test_compiles(self) -> None:
        """A run for which ``compiles`` is False need not give a graph to the compilers."""

        class Cached(Changed):
            def compiles(self, number: int) -> bool:
                return False

        def eager_alone(compiled: Function, eager: Function, arguments: tuple[torch.Tensor, ...]) -> object:
            return eager(*arguments)

        plain: dict[str, Any] = {
            "function": triple,
            "inputs": [torch.ones(2)],
            "requires_grad": None,
            "test_mutation": False,
        }
        self.assertDiffers(
            "compilation: no graph came to the compilers: what ran is not compiled code",
            front_end=Changed(eager_alone),
            **plain,
        )
        verify_aot(triple, [torch.ones(2)], front_end=Cached(eager_alone))

    def test_error_of_a_run(self) -> None:
        """An AssertionError of the ``run`` context fails the verification."""

        class Strict(AotFunction):
            @contextmanager
            def run(self, number: int) -> Iterator[None]:
                yield
                raise AssertionError("the cache was not used")

        with self.assertRaisesRegex(AssertionError, "the cache was not used"):
            verify_aot(triple, [torch.ones(2)], front_end=Strict())

    def test_defaults(self) -> None:
        """A front end has to implement ``compile`` and nothing else."""
        front_end = FrontEnd()
        with front_end.round(), front_end.run(0):
            self.assertTrue(front_end.compiles(0))
        with self.assertRaises(NotImplementedError):
            front_end.compile(triple, Compilation(compilers_of(nop)))


if __name__ == "__main__":
    unittest.main()
