"""Which listed tests are one and the same."""

from __future__ import annotations

import sys
import types
import unittest

from harness.runner.duplicate_ids import Loader


def noop() -> None:
    """Does nothing."""


def case() -> type[unittest.TestCase]:
    """A class that no module has under its name."""

    class Made(unittest.TestCase):
        def test(self) -> None:
            """Nothing."""

    return Made


class Plain(unittest.TestCase):
    """A class whose tests carry a method of their own each, as upstream's multi-process cases do."""

    def __init__(self, method: str = "check", number: object = None) -> None:
        super().__init__(method)
        self.wrapped = types.MethodType(lambda self: None, self)
        if number is not None:
            self.number = number

    def check(self) -> None:
        """Nothing."""


class Odd:
    """Cannot be compared, as arrays cannot."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]  # as arrays have it


class SameTest(unittest.TestCase):
    """Loader.same."""

    def setUp(self) -> None:
        """A loader that knows the methods of ``Plain``."""
        self.loader = Loader()
        self.loader.testMethodPrefix = "check"

    def load(self) -> unittest.TestCase:
        """A test, made by the loader."""
        (test,) = self.loader.loadTestsFromTestCase(Plain)
        assert isinstance(test, unittest.TestCase)
        return test

    def test_made_by_hand(self) -> None:
        """They are one where they have the same in them."""
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
        """They are one, unless somebody has changed one since."""
        one, other = self.load(), self.load()
        self.assertTrue(self.loader.same(one, other))
        one.number = 1  # type: ignore[attr-defined]  # as a load_tests does
        self.assertFalse(self.loader.same(one, other))


class ImportedTest(unittest.TestCase):
    """Loader.imported."""

    def setUp(self) -> None:
        """A module that imports from this one."""
        self.loader = Loader()
        self.here = sys.modules[__name__]
        self.there = types.ModuleType("imports_from_here")

    def imported(self, test: unittest.TestCase) -> tuple[bool, bool]:
        """Whether a test is imported here, and in the other module."""
        return self.loader.imported(test, self.here), self.loader.imported(test, self.there)

    def test_found_by_name(self) -> None:
        """Classes, nested ones too, and functions."""
        self.assertEqual(self.imported(SameTest("test_made_by_hand")), (False, True))
        self.assertEqual(self.imported(unittest.FunctionTestCase(noop)), (False, True))

    def test_made_by_a_factory(self) -> None:
        """What was made for a module is its own; what another module has too is that one's."""
        made = case()
        self.there.Case = made  # type: ignore[attr-defined]  # as a test module does
        self.assertFalse(self.loader.imported(made("test"), self.there))
        shared = types.ModuleType("has_it_first")
        shared.Case = made  # type: ignore[attr-defined]  # as above
        sys.modules["has_it_first"] = shared
        self.addCleanup(sys.modules.pop, "has_it_first")
        self.assertTrue(self.loader.imported(made("test"), self.there))

    def test_made_by_hand(self) -> None:
        """Given something of its own, a test of an imported class is the module's own."""
        self.assertEqual(self.imported(Plain(number=1)), (False, False))


class LoadTestsTest(unittest.TestCase):
    """unittest itself goes by the loader."""

    def test_hands_itself_on(self) -> None:
        """To a module's load_tests."""
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
