"""Decides whether two tests with the same id are the same test, so that it is enough to run one of them.

unittest makes an id from a class and a method, or from a function's name alone. A ``load_tests`` function may
therefore return several tests with one id that differ in something else.
"""

from __future__ import annotations

import sys
import unittest
from types import ModuleType
from typing import Any

# The attributes of every test. A test with more of them was changed, as hand-made parametrisation does.
_BARE = frozenset(vars(unittest.TestCase()))


class Loader(unittest.TestLoader):
    """unittest's loader, which remembers the tests that it made and so can tell which were changed later."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, tuple[unittest.TestCase, dict[str, object]]] = {}  # by id(), as they were made

    def loadTestsFromTestCase(self, testCaseClass: type[unittest.TestCase]) -> unittest.TestSuite:
        """Loads the tests of a class like unittest, and remembers their attributes."""
        suite = super().loadTestsFromTestCase(testCaseClass)
        self._made.update((id(t), (t, dict(vars(t)))) for t in suite if isinstance(t, unittest.TestCase))
        return suite

    def untouched(self, test: unittest.TestCase) -> bool:
        """True where this loader made the test and its attributes are unchanged since."""
        made = self._made.get(id(test))
        now = vars(test)
        return (
            made is not None and now.keys() == made[1].keys() and all(now[k] is v for k, v in made[1].items())
        )

    def same(self, one: unittest.TestCase, other: unittest.TestCase) -> bool:
        """True where two tests with one id have the same class and the same attributes."""
        if type(one) is not type(other):
            return False
        return (self.untouched(one) and self.untouched(other)) or _equal(vars(one), vars(other))

    def imported(self, test: unittest.TestCase, module: ModuleType) -> bool:
        """True where the test's class or function comes from another module than ``module``.

        Every module that imports it from there then lists the same test.
        """
        if isinstance(test, unittest.FunctionTestCase):
            return _imported(getattr(test, "_testFunc", None), module)
        return (self.untouched(test) or vars(test).keys() <= _BARE) and _imported(type(test), module)


def _equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - a user's == may raise, as that of arrays does; such tests may differ
        return False


def _imported(thing: object, module: ModuleType) -> bool:
    home = getattr(thing, "__module__", None)
    if home == module.__name__:
        return False
    named: object = sys.modules.get(home) if isinstance(home, str) else None
    for name in getattr(thing, "__qualname__", "").split("."):
        named = getattr(named, name, None)
    return named is thing or _bound_elsewhere(thing, module)


def _bound_elsewhere(thing: object, module: ModuleType) -> bool:
    others = (other for other in tuple(sys.modules.values()) if other is not module)
    return any(value is thing for other in others for value in tuple(getattr(other, "__dict__", {}).values()))
