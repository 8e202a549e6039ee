"""Tests what a backend supports, by what a target declares, and what of it is refused."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from dataclasses import replace

from harness import UsageError
from harness.fuzzing import GLOO, Backend
from harness.fuzzing.backend import backend_of
from harness.fuzzing.program import COMPLEX, DTYPES, GAPPED, KINDS, MANAGED, OBJECTS, TIMED
from harness.releases import torch_at_least
from harness.targets import FLOATS, Capability, Target, operations
from harness.targets.builtin import gloo


class Backends(unittest.TestCase):
    """``Backend`` and ``backend_of``."""

    def test_gaps_are_known_of_gloo(self) -> None:
        """And of no other."""
        self.assertEqual(GLOO.gapped, GAPPED)
        self.assertEqual(backend_of(replace(gloo(), backend="mine")).gapped, ())

    def test_timeouts_are_known_of_gloo(self) -> None:
        """And of no other."""
        self.assertEqual(GLOO.timed, tuple(kind for kind in TIMED if kind in GLOO.kinds))
        self.assertEqual(backend_of(replace(gloo(), backend="mine")).timed, ())

    def test_managed_calls(self) -> None:
        """Where several tensors can be coalesced; those that reduce all, in each dtype of the plain call."""
        self.assertEqual(GLOO.managed, MANAGED)
        without = frozenset(Capability) - {Capability.COALESCED_TENSORS}
        self.assertEqual(backend_of(replace(gloo(), capabilities=without)).managed, ())
        fewer = {**gloo().operations, **operations(("all_reduce_coalesced",), FLOATS, ("sum",))}
        self.assertEqual(backend_of(replace(gloo(), operations=fewer)).managed, MANAGED[1:])

    def test_backend_of_a_target(self) -> None:
        """What a target declares, and of what reduces only what each of its reductions is defined for."""
        lists = torch_at_least("2.12")
        self.assertEqual(
            (GLOO.kinds, GLOO.dtypes, GLOO.refuses, GLOO.messages),
            (
                tuple(kind for kind in KINDS if kind != "all_to_all" or lists),
                DTYPES,
                {"gather": COMPLEX},
                True,
            ),
        )
        declared = {
            **operations(("broadcast",), FLOATS | {"bool"}),
            **operations(("all_reduce", "all_reduce_coalesced"), FLOATS, ("sum", "max")),
        }
        floats = tuple(dtype for dtype in DTYPES if dtype in FLOATS)
        for capabilities, kinds in (
            (frozenset[Capability](), {"broadcast", "all_reduce"}),
            (frozenset({Capability.BARRIER}), {"broadcast", "all_reduce", "barrier"}),
            (frozenset({Capability.OBJECTS}), {"broadcast", "all_reduce", *OBJECTS}),
            (
                frozenset({Capability.COALESCED_TENSORS}),
                {"broadcast", "all_reduce", "all_reduce_coalesced"},
            ),
        ):
            with self.subTest(capabilities=capabilities):
                backend = backend_of(Target("mine", "cpu", declared, capabilities))
                self.assertEqual((set(backend.kinds), set(backend.ops)), (kinds, {"sum", "max"}))
                self.assertEqual(backend.managed, MANAGED[:1] if "all_reduce_coalesced" in kinds else ())
                self.assertEqual(backend.takes("all_reduce"), floats)
                self.assertEqual(set(backend.takes("broadcast")), {*floats, "bool"})
                self.assertFalse(backend.messages)

    def test_what_is_refused(self) -> None:
        refusals: tuple[tuple[str, Callable[[], object]], ...] = (
            ("kinds of a backend: there is no 'all_redu'", lambda: Backend(kinds=("all_redu",))),
            ("dtypes of a backend: there is no 'half'", lambda: Backend(dtypes=("half",))),
            ("refuses of a backend: there is no 'put'", lambda: Backend(refuses={"put": ()})),
            ("refuses of a backend: there is no 'half'", lambda: Backend(refuses={"gather": ("half",)})),
            ("no dtype for gather", lambda: Backend(dtypes=COMPLEX, refuses={"gather": COMPLEX})),
            ("without kinds", lambda: Backend(kinds=())),
        )
        for words, refused in refusals:
            with self.subTest(words), self.assertRaisesRegex(UsageError, words):
                refused()


if __name__ == "__main__":
    unittest.main()
