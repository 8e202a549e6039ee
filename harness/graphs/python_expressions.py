"""Writes a value as a Python expression, for scripts that repeat a failed verification with its options."""

from __future__ import annotations

import inspect
import operator
import sys
from dataclasses import dataclass
from typing import Any

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


class NoExpression(ValueError):
    """The value has no expression that evaluates to it again."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A Python expression, and the import lines that its names need."""

    text: str
    imports: frozenset[str] = frozenset()


def expression_of(value: Any) -> Expression:
    """An expression that evaluates to ``value`` after its imports; NoExpression if there is none.

    There is one for constants, tuples and lists, functions and classes that can be imported, and instances of
    such classes whose constructor takes no arguments.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return Expression(repr(value))
    if isinstance(value, float):
        return Expression(repr(value) if value - value == 0 else f"float({str(value)!r})")
    if type(value) in (tuple, list):
        return _sequence(value)
    if isinstance(value, type) or inspect.isroutine(value):
        return _imported(value)
    try:
        plain = not inspect.signature(type(value)).parameters
    except (TypeError, ValueError):  # a builtin, which has no signature
        plain = False
    if not plain:
        raise NoExpression(repr(value))
    made = _imported(type(value))
    return Expression(f"{made.text}()", made.imports)


def _sequence(values: tuple[Any, ...] | list[Any]) -> Expression:
    items = [expression_of(value) for value in values]
    inside = ", ".join(item.text for item in items)
    imports = frozenset().union(*(item.imports for item in items))
    if isinstance(values, list):
        return Expression(f"[{inside}]", imports)
    return Expression(f"({inside},)" if len(items) == 1 else f"({inside})", imports)


def _imported(named: Any) -> Expression:
    """The value's own name and its import; NoExpression for local, nameless and ``__main__`` objects."""
    home, path = getattr(named, "__module__", None), getattr(named, "__qualname__", "")
    if home in (None, "__main__") or not path:
        raise NoExpression(repr(named))
    try:
        found = operator.attrgetter(path)(sys.modules[home])
    except (AttributeError, KeyError):
        found = None
    if found is not named:
        raise NoExpression(repr(named))
    if home == "builtins":
        return Expression(path)
    first = path.partition(".")[0]
    return Expression(path, frozenset({f"from {home} import {first}"}))
