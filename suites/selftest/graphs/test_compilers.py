"""``compilers_of``: the compilers that a ``backend=`` stands for."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx.experimental.proxy_tensor import make_fx

from harness import DynamoTestCase, UsageError
from harness.graphs import Compilers, compilers_of, nop
from harness.graphs.compilers import BACKENDS


class CompilersOfTest(DynamoTestCase):
    """The function ``compilers_of``, on every kind of argument."""

    def test_compilers(self) -> None:
        """One compiler serves forward and backward; a pair has that order; ``Compilers`` are passed on."""
        single = compilers_of(nop)
        self.assertEqual((single.name, single.forward, single.backward), ("nop", nop, nop))
        pair = compilers_of((nop, print))
        self.assertEqual((pair.name, pair.forward, pair.backward), ("(nop, print)", nop, print))
        self.assertEqual(single.inference, None)
        own = Compilers("mine", nop, nop)
        self.assertIs(compilers_of(own), own)

    def test_nameless(self) -> None:
        """The name of a compiler without ``__name__`` is that of its class."""

        class Compiler:
            def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Any:
                return graph

        self.assertEqual(compilers_of(Compiler()).name, "Compiler")

    def test_backends(self) -> None:
        """Each named backend compiles a graph to a callable with the graph's results."""
        x = torch.tensor([0.5, 1.0])
        for name in BACKENDS:
            with self.subTest(name):
                compilers = compilers_of(name)
                self.assertEqual(compilers.name, name)
                graph = make_fx(lambda x: (x.sin() + 1,), tracing_mode="fake")(x)
                compiled = compilers.forward(graph, [x])
                boxed = getattr(compiled, "_boxed_call", False)
                (found,) = compiled([x]) if boxed else compiled(x)
                self.assertEqual(found, x.sin() + 1)

    def test_parts(self) -> None:
        """The named backends have the partitioners and decompositions of their counterparts in torch."""
        self.assertEqual(compilers_of("nop"), Compilers("nop", nop, nop))
        self.assertIs(compilers_of("aot_eager").partitioner, min_cut_rematerialization_partition)
        inductor = compilers_of("inductor")
        self.assertTrue(inductor.decompositions)
        self.assertIsNotNone(inductor.inference)

    def test_refused(self) -> None:
        """An unknown name, and anything that is not a compiler or a pair, raise a UsageError."""
        for backend, text in (
            ("fast", "backend='fast' is not known here: give one of 'nop', 'aot_eager', 'inductor'"),
            (3, "backend=3: give a name"),
            ((nop,), "give a name, a compiler"),
            ((nop, 3), "give a name, a compiler"),
            ([nop, nop], "give a name, a compiler"),
        ):
            with self.subTest(backend=backend), self.assertRaisesRegex(UsageError, text):
                compilers_of(backend)


if __name__ == "__main__":
    unittest.main()
