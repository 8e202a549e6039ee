"""Tests attributes that are replaced for a while."""

from __future__ import annotations

import types
import unittest

from harness.system.patching import replaced


class Owner:
    """A class with an attribute of each kind."""

    def method(self) -> str:
        return "method"

    @staticmethod
    def static() -> str:
        return "static"

    @classmethod
    def of_class(cls) -> str:
        return cls.__name__


class Heir(Owner):
    """A class that inherits its attributes."""


class ReplacedTest(unittest.TestCase):
    """``replaced``: attributes that have another value for a while."""

    def test_module(self) -> None:
        """A module's attribute is the new one within, and the old one afterwards."""
        module = types.ModuleType("m")
        module.name = "before"  # type: ignore[attr-defined]  # a module made up here
        with replaced(module, "name", "within"):
            self.assertEqual(vars(module)["name"], "within")
        self.assertEqual(vars(module)["name"], "before")

    def test_class(self) -> None:
        """Static and class methods are again what they were, and bind as before."""
        for name, expected in (("method", "method"), ("static", "static"), ("of_class", "Owner")):
            with self.subTest(name):
                before = vars(Owner)[name]
                with replaced(Owner, name, lambda *arguments: "within"):
                    self.assertEqual(getattr(Owner(), name)(), "within")
                self.assertIs(vars(Owner)[name], before)
                self.assertEqual(getattr(Owner(), name)(), expected)

    def test_exception(self) -> None:
        """The attribute is restored also after an exception."""
        before = vars(Owner)["static"]
        with self.assertRaises(ZeroDivisionError), replaced(Owner, "static", None):
            raise ZeroDivisionError
        self.assertIs(vars(Owner)["static"], before)

    def test_what_the_owner_does_not_have(self) -> None:
        """An attribute that the owner does not have itself is a KeyError, and nothing is set."""
        for owner, name in ((Owner, "missing"), (Heir, "method")):
            with self.subTest(name), self.assertRaises(KeyError), replaced(owner, name, None):
                self.fail("it was replaced")
            self.assertNotIn(name, vars(owner) if owner is Heir else dir(owner))


if __name__ == "__main__":
    unittest.main()
