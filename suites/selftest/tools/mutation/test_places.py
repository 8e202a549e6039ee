"""Tests which nodes of a syntax tree may be mutated, and of which function and line they are."""

from __future__ import annotations

import ast
import textwrap
import unittest

from tools.mutation.places import places

SOURCE = textwrap.dedent('''
    from typing import TYPE_CHECKING

    at_import = 1 + 2

    if TYPE_CHECKING:
        import typing

    class Class(Base[3]):
        """Words."""

        field: int = 4

        @decorated(5)
        def method(self, default=6) -> Literal[7]:
            """Words."""
            x: Literal[8] = 9
            if (
                x
                > 10
            ):
                return 11
            def inner():
                return 12
            return lambda: 13

        def __repr__(self):
            return 14
''')


class PlacesTest(unittest.TestCase):
    """``places`` of a module with one of each kind."""

    def test_only_what_runs_in_functions(self) -> None:
        """Constants at import, in annotations, defaults, decorators and words for people are no places."""
        numbers = {
            p.node.value: (p.function, p.line)
            for p in places(ast.parse(SOURCE))
            if isinstance(p.node, ast.Constant)
        }
        line = SOURCE.splitlines().index
        self.assertEqual(
            numbers,
            {
                9: ("Class.method", line("        x: Literal[8] = 9") + 1),
                10: ("Class.method", line("        if (") + 1),
                11: ("Class.method", line("            return 11") + 1),
                12: ("Class.method.inner", line("            return 12") + 1),
                13: ("Class.method", line("        return lambda: 13") + 1),
            },
        )

    def test_put(self) -> None:
        """A node is replaced by one, and a statement by several."""
        tree = ast.parse("def f():\n    a = 1\n    b()\n")
        found = list(places(tree))
        next(p for p in found if isinstance(p.node, ast.Constant)).put(ast.Constant(2))
        next(p for p in found if isinstance(p.node, ast.Expr)).put(ast.parse("c()\nd()").body)
        self.assertEqual(ast.unparse(tree), "def f():\n    a = 2\n    c()\n    d()")

    def test_attributes(self) -> None:
        """A place knows which attributes its function reads of an object, calls left out."""
        tree = ast.parse("def f(a):\n    return a.b + a.c.d + a.e()\n")
        attributes = next(p for p in places(tree) if isinstance(p.node, ast.Attribute)).attributes
        self.assertEqual(attributes, {"a": ("b", "c"), "a.c": ("d",)})
