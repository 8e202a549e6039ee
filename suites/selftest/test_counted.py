"""The counting backend of the suites: it finds what was compiled, and what was only run."""

from __future__ import annotations

import importlib
import unittest
from typing import Any
from unittest import mock

import torch
from torch._dynamo.backends.debugging import boxed_nop

from harness import DynamoTestCase

counted = importlib.import_module("suites.counted")  # suites are not typed
inductor = importlib.import_module("suites.inductor")
AOT = "torch._dynamo.backends.common.AotAutograd.__call__"
INDUCTOR = "torch._inductor.compile_fx._compile_fx_inner"


def as_given(self: Any, graph: Any, inputs: Any, **options: Any) -> Any:
    """In AOTAutograd's place: the graph, to be run in eager."""
    return graph.forward


class CountedBackendTest(DynamoTestCase):
    """A layer and its sine, trained for a step."""

    def setUp(self) -> None:
        super().setUp()
        inductor.settle()

    def trained(self, name: str) -> Any:
        """The backend of that name, after a forward and a backward."""
        counter = counted.CountedBackend(name)
        layer = torch.nn.Linear(3, 4)
        torch.compile(lambda x: layer(x).sin(), backend=counter)(torch.ones(2, 3)).sum().backward()
        self.assertIsNotNone(layer.weight.grad)
        self.assertEqual(counter.frame_count, 1)
        return counter

    def test_what_is_compiled(self) -> None:
        for name in ("aot_eager", "inductor"):
            with self.subTest(name):
                torch._dynamo.reset()
                counter = self.trained(name)
                self.assertEqual(counter.missing(), "")
                self.assertEqual([each["sin"] for each in counter.forwards], [1])
                self.assertEqual([each["cos"] for each in counter.backwards], [1])
                self.assertEqual(counter.products(), [1])  # the input wants no gradient

    def test_eager_compiles_nothing(self) -> None:
        counter = self.trained("eager")
        self.assertEqual((counter.missing(), counter.forwards, counter.backwards), ("", [], []))

    def test_graphs_that_aot_autograd_has_not_compiled(self) -> None:
        for name in ("aot_eager", "inductor"):
            with self.subTest(name), mock.patch(AOT, as_given):
                torch._dynamo.reset()
                missing = self.trained(name).missing()
                self.assertEqual(missing, "1 graphs, of which AOTAutograd has compiled 0")

    def test_graphs_that_inductor_only_runs(self) -> None:
        with mock.patch(INDUCTOR, lambda graph, inputs, *args, **options: boxed_nop(graph, inputs)):
            counter = self.trained("inductor")
        self.assertEqual(len(counter.bare), 2)
        self.assertIn("inductor has generated no code for [Counter({", counter.missing())

    def test_a_case_checks_its_counters(self) -> None:
        class Case(counted.CountsCompiles, DynamoTestCase):  # type: ignore[misc, name-defined]  # not typed
            def test(self) -> None:
                torch.compile(torch.sin, backend=self.counted("aot_eager"))(torch.ones(2))

        broken, sound = unittest.TestResult(), unittest.TestResult()
        with mock.patch(AOT, as_given):
            Case("test").run(broken)
        ((_, said),) = broken.failures
        self.assertIn("AOTAutograd has compiled 0", said)
        Case("test").run(sound)
        self.assertTrue(sound.wasSuccessful())


class WorkTest(DynamoTestCase):
    """What the compilers of a process have done."""

    def test_counts_graphs_and_calls(self) -> None:
        inductor.settle()
        before = counted.Work.so_far()
        torch.compile(torch.sin, backend="aot_eager")(torch.ones(2))
        between = counted.Work.so_far()
        self.assertEqual(between, (before.graphs + 1, before.calls))
        torch._dynamo.reset()
        torch.compile(lambda x: (x @ x).sin())(torch.ones(2, 2))
        after = counted.Work.so_far()
        self.assertEqual(after, (between.graphs + 1, between.calls + 2))  # a library's product, and a kernel


if __name__ == "__main__":
    unittest.main()
