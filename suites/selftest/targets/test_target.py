"""Tests ``Target`` as a value: what it declares, what it does not, and what cannot be one."""

from __future__ import annotations

import unittest
from dataclasses import replace

import torch

from harness.errors import UsageError
from harness.targets.target import (
    ARITHMETIC,
    FLOATS,
    INTEGERS,
    MESSAGES,
    MOVING,
    REDUCING,
    Capability,
    Target,
    collectives,
    operations,
)

PLAIN = Target(
    "mine",
    "cpu",
    {**collectives(FLOATS | INTEGERS), **operations(("all_reduce",), FLOATS | {"bool"}, ("avg", "bor"))},
    frozenset({Capability.TAGS}),
)


class DeclaredTest(unittest.TestCase):
    """What a target declares."""

    def test_operations(self) -> None:
        """All operations take the dtypes; those that reduce have each reduction where it is defined."""
        every = collectives(FLOATS | INTEGERS)
        self.assertEqual(set(every), {*MOVING, *REDUCING, *MESSAGES})
        for name, operation in every.items():
            with self.subTest(operation=name):
                self.assertEqual(operation.dtypes, FLOATS | INTEGERS)
                self.assertEqual(tuple(operation.reductions), ARITHMETIC if name in REDUCING else ())
        self.assertEqual(PLAIN.dtypes("all_reduce", "avg"), FLOATS)
        self.assertEqual(PLAIN.dtypes("all_reduce", "bor"), {"bool"})

    def test_reductions_with_dtypes(self) -> None:
        """A mapping says for which dtypes, whatever the reduction is defined for."""
        made = operations(("reduce",), {"int32", "bool"}, {"avg": {"int32", "float32"}})
        self.assertEqual(made["reduce"].reductions, {"avg": {"int32"}})

    def test_unknown_reduction(self) -> None:
        """A reduction that does not exist is a mistake, with the names of those that do."""
        with self.assertRaisesRegex(UsageError, "no reduction 'mean': write one of sum, avg"):
            collectives(FLOATS, ("mean",))

    def test_undeclared(self) -> None:
        """The first thing that is not declared is said; nothing where all is."""
        for wanted, capabilities, said in (
            ({}, (), ""),
            ({}, (Capability.TAGS,), ""),
            ({}, (Capability.TAGS, Capability.ANY_SOURCE), "recv from any source"),
            ({"backend": "mine"}, (), ""),
            ({"backend": "gloo"}, (), "what only the backend gloo does"),
            ({"device_type": "cuda"}, (), "what is done on cuda only"),
            ({"operation": "broadcast"}, (), ""),
            ({"operation": "nonesuch"}, (), "nonesuch"),
            ({"operation": "broadcast", "dtype": "bool"}, (), "broadcast of bool"),
            ({"operation": "all_reduce", "reduction": "avg", "dtype": "float32"}, (), ""),
            ({"operation": "all_reduce", "reduction": "sum"}, (), "reduction SUM of all_reduce"),
            (
                {"operation": "all_reduce", "reduction": "bor", "dtype": "float32"},
                (),
                "reduction BOR of all_reduce of float32",
            ),
        ):
            with self.subTest(wanted=wanted, capabilities=capabilities):
                self.assertEqual(PLAIN.undeclared(*capabilities, **wanted), said)


class ValueTest(unittest.TestCase):
    """What may be a target."""

    def test_refused(self) -> None:
        """A name that no backend has, no device type, and what is no capability."""
        for backend, device_type, capabilities in (
            ("", "cpu", frozenset()),
            ("Mine", "cpu", frozenset()),
            ("mine", "", frozenset()),
            ("mine", "cpu", frozenset({"tags"})),
        ):
            with self.subTest(backend=backend, device_type=device_type), self.assertRaises(UsageError):
                Target(backend, device_type, {}, capabilities)  # type: ignore[arg-type]  # wrong on purpose

    def test_ranks_per_device(self) -> None:
        """A device takes at least one rank; two devices that take three each have room for six."""
        with self.assertRaisesRegex(UsageError, "ranks_per_device is 0; it is at least 1"):
            replace(PLAIN, ranks_per_device=0)
        target = replace(PLAIN, device_type="cuda", device_count=lambda: 2, ranks_per_device=3)
        self.assertEqual(target.most_ranks(), 6)
        self.assertEqual([target.device(rank).index for rank in range(4)], [0, 1, 0, 1])

    def test_name(self) -> None:
        """The CPU goes without saying."""
        self.assertEqual((str(PLAIN), str(replace(PLAIN, device_type="cuda"))), ("mine", "mine on cuda"))

    def test_device(self) -> None:
        """Ranks share the CPU, and have an accelerator each, those of their host in turn."""
        self.assertEqual(PLAIN.device(3), torch.device("cpu"))
        for count, index in ((0, 3), (4, 3), (2, 1)):
            target = replace(PLAIN, device_type="cuda", device_count=[count].pop)
            self.assertEqual(target.device(3), torch.device("cuda", index))

    def test_functions(self) -> None:
        """Those that are given are kept; the others follow the device type, also of a changed copy."""
        called: list[int] = []
        given = replace(PLAIN, set_device=called.append)
        given.set_device(2)
        replace(given, device_type="cuda").set_device(5)
        self.assertEqual(called, [2, 5])
        self.assertEqual(PLAIN.device_count(), 1)
        self.assertEqual(replace(PLAIN, device_type="meta").device_count.args, ("meta",))  # type: ignore[attr-defined]  # a partial


if __name__ == "__main__":
    unittest.main()
