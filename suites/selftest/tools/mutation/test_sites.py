"""Tests that a mutant is found by its name, planted where it should be, and known if it changes no code."""

from __future__ import annotations

import ast
import unittest
from typing import Any

from harness.errors import UsageError
from tools.mutation import modules
from tools.mutation.sites import describe, find, mutated, same_code, sites

SOURCE = """\
def clamp(value, low, high):
    if value < low:
        return low
    return high if value > high else value
"""


def clamp_of(name: str) -> Any:
    """The function as a mutant has it."""
    space: dict[str, Any] = {}
    exec(compile(mutated(SOURCE, name), "clamp.py", "exec"), space)
    return space["clamp"]


def named(operator: str, line: int) -> str:
    """The name of the first mutant by this rule on a line."""
    return next(s.name for s in sites("clamp.py", SOURCE) if s.operator == operator and s.span[0] == line)


class SitesTest(unittest.TestCase):
    """``Site`` and the trees that have it."""

    def test_planted(self) -> None:
        """Each mutant differs from the source in what it says, and nowhere else."""
        self.assertEqual(clamp_of(named("comparison", 2))(1, 1, 3), 1)
        self.assertIsNone(clamp_of(named("early_return", 3))(0, 1, 3))
        self.assertEqual(clamp_of(named("early_return", 3))(5, 1, 3), 3)
        self.assertEqual(clamp_of(named("dropped_condition", 4))(2, 1, 3), 3)
        self.assertIsNone(clamp_of(named("early_return", 1))(2, 1, 3))

    def test_every_mutant_compiles_and_is_found_by_its_name(self) -> None:
        """So do those of a real module: each is another program than the source, or said to be the same."""
        file = "torch/distributed/rendezvous.py"
        source = (modules.root() / file).read_text(encoding="utf-8")
        every = list(sites(file, source))
        self.assertEqual(len({site.name for site in every}), len(every))
        whole = ast.dump(ast.parse(source))
        for site in every[:: len(every) // 40]:
            with self.subTest(site.name):
                self.assertEqual(find(site.name, source), site)
                tree = mutated(source, site.name)
                self.assertNotEqual(ast.dump(tree), whole)
                compile(tree, file, "exec")

    def test_tracebacks_show_the_source(self) -> None:
        """A mutant's lines are the source's, whatever it adds."""
        tree = mutated(SOURCE, named("early_return", 1))
        statements = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Return)]
        self.assertLessEqual({3, 4}, set(statements))

    def test_same_code(self) -> None:
        source = "def f(a):\n    if a:\n        return\n    return\n"
        same = [s.operator for s in sites("f.py", source) if same_code(source, s.name)]
        self.assertNotIn("negated_condition", [s for s in same if s == "early_return"])
        self.assertFalse(any(same_code(SOURCE, site.name) for site in sites("clamp.py", SOURCE)))
        source = "def f(a):\n    a()\n    return None\n    a(1)\n"
        dead = [s for s in sites("f.py", source) if s.line == 4]
        self.assertTrue(dead)
        self.assertTrue(all(same_code(source, s.name) for s in dead))

    def test_unknown_names(self) -> None:
        for function in (find, lambda name, source: mutated(source, name), lambda n, s: describe(s, n)):
            with self.assertRaisesRegex(UsageError, "there is no mutant clamp.py:9.9"):
                function("clamp.py:9.9-9.9:constant:0", SOURCE)
