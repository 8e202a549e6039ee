"""Values written as Python expressions that evaluate to them again."""

from __future__ import annotations

import functools
import math
import unittest
from typing import Any

import torch

from harness import TestCase
from harness.graphs import AotFunction, Compilers, nop
from harness.graphs.python_expressions import NoExpression, expression_of


class Outer:
    """A class with classes inside."""

    class Inner:
        """A class whose constructor takes no arguments."""

        def __eq__(self, other: object) -> bool:
            return type(other) is type(self)

        __hash__ = object.__hash__

    class Configured:
        """A class whose constructor has an optional argument."""

        def __init__(self, value: int = 3) -> None:
            self.value = value


class ExpressionTest(TestCase):
    """The function ``expression_of``, on values of many types."""

    def test_back(self) -> None:
        """Evaluated after its imports, the expression is equal to the value."""
        for value, text in (
            (None, "None"),
            (True, "True"),
            (1.5, "1.5"),
            (math.inf, "float('inf')"),
            ("a'b", '"a\'b"'),
            ((nop,), "(nop,)"),
            ((nop, (nop, 3)), "(nop, (nop, 3))"),
            ([], "[]"),
            (len, "len"),
            (ValueError, "ValueError"),
            (Outer.Inner, "Outer.Inner"),
            (Outer.Inner(), "Outer.Inner()"),
        ):
            with self.subTest(value=value):
                source = expression_of(value)
                scope: dict[str, Any] = {}
                exec("\n".join(source.imports), scope)
                self.assertEqual(eval(source.text, scope), value)
                self.assertEqual(source.text, text)
        self.assertEqual(expression_of(AotFunction()).text, "AotFunction()")

    def test_not_written(self) -> None:
        """There is no expression for a value that cannot be imported or rebuilt."""

        def local() -> None: ...

        class Local:
            pass

        for value in (
            local,
            lambda: None,
            Local,
            Local(),
            (nop, local),
            {"a": 1},
            Outer.Configured(4),
            Outer.Configured(),
            Compilers("mine", nop, nop),
            functools.partial(nop),
            Outer.Configured(1).__init__,  # type: ignore[misc]  # a method that belongs to one object
            torch.ones(2),
            torch.sin,
        ):
            with self.subTest(value=value), self.assertRaises(NoExpression):
                expression_of(value)


if __name__ == "__main__":
    unittest.main()
