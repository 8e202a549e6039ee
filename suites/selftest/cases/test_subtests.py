"""Tests ``run_subtests``: its combinations come in order, and each is judged on its own."""

from __future__ import annotations

import unittest
from typing import Any

import torch

from harness import run_subtests


class RunSubtestsTest(unittest.TestCase):
    """Runs without ranks, which work the same."""

    def test_combinations(self) -> None:
        """The last keyword varies fastest, and a failure names its combination and stops nothing."""
        calls: list[tuple[Any, ...]] = []

        def check(base: str, a: int, b: str, last: bool = False) -> None:
            calls.append((base, a, b, last))
            self.assertNotEqual((a, b), (1, "y"))

        class Combined(unittest.TestCase):
            def runTest(self) -> None:
                run_subtests(self, {"a": [1, 2], "b": ["x", "y"]}, check, "base", last=True)

        result = unittest.TestResult()
        Combined().run(result)
        self.assertEqual(calls, [("base", a, b, True) for a in (1, 2) for b in ("x", "y")])
        ((failed, _),) = result.failures
        self.assertIn("(a=1, b='y')", str(failed))

    def test_compiler_starts_from_nothing(self) -> None:
        """In each combination the compiler starts with nothing compiled."""
        graphs: list[Any] = []

        def backend(graph: Any, inputs: Any) -> Any:
            graphs.append(graph)
            return graph

        double = torch.compile(lambda x: x * 2, backend=backend)
        run_subtests(self, {"n": [1, 2, 3]}, lambda n: double(torch.ones(2)))
        self.assertEqual(len(graphs), 3)


if __name__ == "__main__":
    unittest.main()
