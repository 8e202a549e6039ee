"""Tests which mutants count as such that nothing can notice, and that reviewers' entries say why."""

from __future__ import annotations

import unittest

from suites.mutations import EQUIVALENT
from tools.mutation import equivalent
from tools.mutation.sites import describe, sites

SOURCE = "def f(a):\n    return a + 1\n    a()\n"


class EquivalentTest(unittest.TestCase):
    """``reason``, of the mutants of a small source."""

    def test_reasons(self) -> None:
        addition = next(s for s in sites("f.py", SOURCE) if s.operator == "arithmetic")
        dead = next(s for s in sites("f.py", SOURCE) if s.operator == "dropped_statement")
        self.assertEqual(equivalent.reason(dead, SOURCE, {}), "the same byte code")
        self.assertIsNone(equivalent.reason(addition, SOURCE, {}))
        key = equivalent.key(addition, describe(SOURCE, addition.name))
        self.assertEqual(key, "f.py f: a + 1 => a - 1")
        self.assertEqual(equivalent.reason(addition, SOURCE, {key: "a is 0"}), "a is 0")

    def test_reviewed(self) -> None:
        """Each entry names a file of torch and has a reason."""
        for entry, reason in EQUIVALENT.items():
            with self.subTest(entry):
                self.assertRegex(entry, r"^torch/\S+\.py \S+: .+ => .+$")
                self.assertGreater(len(reason), 10)
