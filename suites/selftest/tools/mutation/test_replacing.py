"""Tests that functions which are there get a mutant's code, and which mutants cannot be planted so."""

from __future__ import annotations

import functools
import gc
import types
import unittest
from collections.abc import Callable
from typing import Any

from tools.mutation.replacing import Functions, NotReplaceable, changed_code

PATH = "/nowhere/replaced.py"
SOURCE = """
import contextlib, functools
def plain(n):
    return n + 1
def outer(n):
    part = [2]
    def inner():
        return n * part[0]
    return inner
@functools.lru_cache
def cached(n):
    return n - 1
@contextlib.contextmanager
def context(n):
    yield n + 3
class Base:
    @property
    def value(self):
        return 4
class Derived(Base):
    @property
    def value(self):
        return super().value + 1
def made(n):
    def wrapper(m):
        return n * m
    return wrapper
double = made(2)
pair = lambda n: (lambda: n, lambda: n + 1)
"""


def compiled(source: str) -> types.CodeType:
    """The code of a module."""
    return compile(source, PATH, "exec")


def changed(before: str, after: str) -> tuple[types.CodeType, types.CodeType]:
    """The module's code and the mutant's in which a text of it is another."""
    assert SOURCE.count(before) == 1, before
    return compiled(SOURCE), compiled(SOURCE.replace(before, after))


class FunctionsTest(unittest.TestCase):
    """A module's functions after its import."""

    def setUp(self) -> None:
        self.functions = Functions([PATH])
        self.names: dict[str, Any] = {}
        with self.functions:
            exec(compiled(SOURCE), self.names)

    def plant(self, before: str, after: str) -> None:
        """Plants the mutant."""
        for function, code in self.functions.to_change(PATH, *changed_code(*changed(before, after))):
            function.__code__ = code

    def test_functions(self) -> None:
        """A function, one inside it that was not made yet, and those behind decorators and in classes."""
        n = self.names
        rows: list[tuple[str, str, Callable[[], int], int]] = [
            ("n + 1\ndef outer", "n + 5\ndef outer", lambda: n["plain"](1), 6),
            ("n * part[0]", "n - part[0]", lambda: n["outer"](5)(), 3),
            ("n - 1", "n + 2", lambda: n["cached"](1), 3),
            ("yield n + 3", "yield n - 3", lambda: n["context"](4).__enter__(), 1),
            ("return 4", "return 5", lambda: n["Base"]().value, 5),
            (".value + 1", ".value - 1", lambda: n["Derived"]().value, 4),
        ]
        for before, after, call, value in rows:
            with self.subTest(after):
                self.assertNotEqual(call(), value) if before != "n - 1" else None
                self.plant(before, after)
                self.assertEqual(call(), value)

    def test_refusals(self) -> None:
        rows = {
            ("return n * m", "return n + m"): "runs as torch is imported",
            ("double = made(2)", "double = made"): "0 functions",
            ("super().value + 1", "self"): "other variables",
            ("lambda: n,", "lambda: n * 2,"): "runs as|several functions",
        }
        for (before, after), words in rows.items():
            with self.subTest(after), self.assertRaisesRegex(NotReplaceable, words):
                self.plant(before, after)

    def test_not_there(self) -> None:
        """A module that was not imported."""
        with Functions([PATH + "x"]) as none:
            pass
        with self.assertRaisesRegex(NotReplaceable, "no such function"):
            none.to_change(PATH, *changed_code(*changed("n - 1", "n")))

    def test_closures_that_were_there_before(self) -> None:
        """A function that another one made is changed, too, if that did not run as modules were imported."""
        inner = self.names["outer"](5)
        keep = functools.partial(inner)
        with self.functions:
            gc.collect()
        self.plant("n * part[0]", "n - part[0]")
        self.assertEqual(keep(), 3)
