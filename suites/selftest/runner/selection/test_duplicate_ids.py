"""Tests which listed tests are one and the same."""

from __future__ import annotations

import sys
import types
import unittest

from harness.runner.selection.duplicate_ids import Loader


def noop() -> None:
    """Does nothing."""


def case() -> type[unittest.TestCase]:
    """Returns a class that no module has under its name."""

    class Made(unittest.TestCase):
        def test(self) -> None:
            """Does nothing."""

    return Made


class Plain(unittest.TestCase):
    """A class whose tests each carry a method of their own, as upstream's multi-process cases do."""

    def __init__(self, method: str = "check", number: object = None) -> None:
        super().__init__(method)
        self.wrapped = types.MethodType(lambda self: None, self)
        if number is not None:
            self.number = number

    def check(self) -> None:
        """Does nothing."""


class Odd:
    """An object that cannot be compared, as arrays cannot."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]  # as arrays have it


class SameTest(unittest.TestCase):
    """``Loader.same``, which says whether two listed tests are one."""

    def setUp(self) -> None:
        """Makes a loader that knows the methods of ``Plain``."""
        self.loader = Loader()
        self.loader.testMethodPrefix = "check"

    def load(self) -> unittest.TestCase:
        """Returns a test that the loader made."""
        (test,) = self.loader.loadTestsFromTestCase(Plain)
        assert isinstance(test, unittest.TestCase)
        return test

    def test_made_by_hand(self) -> None:
        """Tests made by hand are the same if they have the same class and contents."""
        first, second = case(), case()
        table: tuple[tuple[unittest.TestCase, unittest.TestCase, bool], ...] = (
            (first("test"), first("test"), True),
            (first("test"), second("test"), False),
            (Plain(number=1), Plain(number=-1), False),
            (Plain(number=Odd()), Plain(number=Odd()), False),
            (unittest.FunctionTestCase(noop), unittest.FunctionTestCase(noop), True),
            (unittest.FunctionTestCase(noop), unittest.FunctionTestCase(lambda: None), False),
        )
        for one, other, same in table:
            with self.subTest(one=one, other=other):
                self.assertIs(self.loader.same(one, other), same)

    def test_made_by_the_loader(self) -> None:
        """Tests made by the loader are the same, unless one was changed afterwards."""
        one, other = self.load(), self.load()
        self.assertTrue(self.loader.same(one, other))
        one.number = 1  # type: ignore[attr-defined]  # as a load_tests does
        self.assertFalse(self.loader.same(one, other))


class ImportedTest(unittest.TestCase):
    """``Loader.imported``, which says whether a module has a test from another one."""

    def setUp(self) -> None:
        """Makes a module that imports from this one."""
        self.loader = Loader()
        self.here = sys.modules[__name__]
        self.there = types.ModuleType("imports_from_here")

    def imported(self, test: unittest.TestCase) -> tuple[bool, bool]:
        """Returns whether a test is imported here, and in the other module."""
        return self.loader.imported(test, self.here), self.loader.imported(test, self.there)

    def test_found_by_name(self) -> None:
        """A test that its module holds by name belongs there, for classes and functions."""
        self.assertEqual(self.imported(SameTest("test_made_by_hand")), (False, True))
        self.assertEqual(self.imported(unittest.FunctionTestCase(noop)), (False, True))

    def test_made_by_a_factory(self) -> None:
        """A factory's class belongs to the module that has it, or to the first of several that do."""
        made = case()
        self.there.Case = made  # type: ignore[attr-defined]  # as a test module does
        self.assertFalse(self.loader.imported(made("test"), self.there))
        shared = types.ModuleType("has_it_first")
        shared.Case = made  # type: ignore[attr-defined]  # as a test module does
        sys.modules["has_it_first"] = shared
        self.addCleanup(sys.modules.pop, "has_it_first")
        self.assertTrue(self.loader.imported(made("test"), self.there))

    def test_made_by_hand(self) -> None:
        """A test of an imported class with something of its own belongs to the module."""
        self.assertEqual(self.imported(Plain(number=1)), (False, False))


class LoadTestsTest(unittest.TestCase):
    """unittest's own loading with our loader."""

    def test_hands_itself_on(self) -> None:
        """The loader passes itself to a module's load_tests."""
        module, given = types.ModuleType("m"), []

        def load_tests(loader: unittest.TestLoader, *_: object) -> unittest.TestSuite:
            given.append(loader)
            return unittest.TestSuite()

        module.load_tests = load_tests  # type: ignore[attr-defined]  # what unittest looks for
        loader = Loader()
        loader.loadTestsFromModule(module)
        self.assertEqual(given, [loader])


if __name__ == "__main__":
    unittest.main()
