"""Which tests of one id are one and the same, so that one run of it speaks for all of them.

unittest makes an id of a class and a method, or of a function's name alone; a ``load_tests`` may give one id
to tests that differ in something else.
"""

from __future__ import annotations

import sys
import unittest
from types import ModuleType
from typing import Any

# What every test has. One with more was given something, as hand-made parametrisation does.
_BARE = frozenset(vars(unittest.TestCase()))


class Loader(unittest.TestLoader):
    """unittest's loader, which knows again the tests that it made: class and method, and nothing more."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, tuple[unittest.TestCase, dict[str, object]]] = {}  # by id(), as they were made

    def loadTestsFromTestCase(self, testCaseClass: type[unittest.TestCase]) -> unittest.TestSuite:
        """As unittest does."""
        suite = super().loadTestsFromTestCase(testCaseClass)
        self._made.update((id(t), (t, dict(vars(t)))) for t in suite if isinstance(t, unittest.TestCase))
        return suite

    def untouched(self, test: unittest.TestCase) -> bool:
        """True where this loader made the test and nobody gave it anything since."""
        made = self._made.get(id(test))
        now = vars(test)
        return (
            made is not None and now.keys() == made[1].keys() and all(now[k] is v for k, v in made[1].items())
        )

    def same(self, one: unittest.TestCase, other: unittest.TestCase) -> bool:
        """True where nothing tells two tests of one id apart."""
        if type(one) is not type(other):
            return False
        return (self.untouched(one) and self.untouched(other)) or _equal(vars(one), vars(other))

    def imported(self, test: unittest.TestCase, module: ModuleType) -> bool:
        """True where a module has a test's class, or function, from another module, so that any module which
        lists the id from there has this very test."""
        if isinstance(test, unittest.FunctionTestCase):
            return _imported(getattr(test, "_testFunc", None), module)
        return (self.untouched(test) or vars(test).keys() <= _BARE) and _imported(type(test), module)


def _equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - somebody's own ==, of arrays say: what cannot be compared may differ
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
