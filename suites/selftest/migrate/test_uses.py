"""Tests where a file is found to use a module of torch's."""

from __future__ import annotations

import unittest

import libcst as cst
from libcst import metadata

from harness.migrate.uses import find_uses

MODULE = "torch.testing._internal.common_utils"


class UsesTest(unittest.TestCase):
    """Attributes that move, and what stays."""

    def test_uses(self) -> None:
        for body, moved, reasons in (
            ("cu.TestCase", 1, []),
            ("cu.TestCase.setUp", 1, []),
            ("print(cu)", 0, ["is used as a module"]),
            ("cu.swap", 0, ["is for torch's own tests of operators"]),
            ("cu.SEED = 1", 0, ["is assigned to"]),
            ("harness = 1; cu.TestCase", 0, ["cannot be written"]),
        ):
            with self.subTest(body):
                module = cst.parse_module(f"import {MODULE} as cu\n{body}\n")
                uses = find_uses(metadata.MetadataWrapper(module), frozenset({MODULE}))
                self.assertEqual(len(uses.moved), moved)
                self.assertEqual([left.line for left in uses.left], [2] * len(reasons))
                for left, reason in zip(uses.left, reasons, strict=True):
                    self.assertIn(reason, left.reason)


if __name__ == "__main__":
    unittest.main()
