"""``checked``: whether the plain fields of a message have values that its readers can work with.

Messages and records are JSON. A test can corrupt the process that sends them, and a file of them can be
damaged. So the reader checks what it would otherwise compute with, compare or print.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_origin, get_type_hints

# Every honest integer is below: bytes, exit codes, process ids, seeds. Some that are not cannot be printed.
LARGEST_NUMBER = 2**64
# Seconds. Times of the epoch and of the monotonic clock are far below, and up to here there are dates.
LARGEST_S = 2**37

Fits = Callable[[Any], bool]

# Whether a value from JSON is one of a plain type. A float is a time in seconds, perhaps written as an int.
_PLAIN: dict[Any, Fits] = {
    str: lambda value: type(value) is str,
    bool: lambda value: type(value) is bool,
    type(None): lambda value: value is None,
    int: lambda value: type(value) is int and abs(value) < LARGEST_NUMBER,
    float: lambda value: type(value) in (int, float) and abs(value) <= LARGEST_S,
}


def checked(kind: Any, value: dict[str, Any]) -> dict[str, Any]:
    """The values by name of some fields of a dataclass, as they came from JSON.

    ValueError where a plain field cannot have its value: text, a number, None in place of one, a sequence of
    these, or a mapping to them. Fields of other types are not looked at.
    """
    fits = _fits_by_field(kind)
    for name, field_value in value.items():
        if name in fits and not fits[name](field_value):
            raise ValueError(f"{name} has a value of the wrong kind, a {type(field_value).__name__}")
    return value


def checked_columns(kind: Any, value: dict[str, list[Any]], length: int) -> dict[str, list[Any]]:
    """The same of lists of the values of some fields, of ``length`` values each."""
    fits = _fits_by_field(kind)
    for name, column in value.items():
        if type(column) is not list or len(column) != length:
            raise ValueError(f"{name} is no list of {length} values")
        if name in fits and not all(map(fits[name], column)):
            raise ValueError(f"{name} has a value of the wrong kind")
    return value


@functools.cache
def _fits_by_field(kind: Any) -> dict[str, Fits]:
    """The check of each plain field of a dataclass."""
    found = {name: _fits(hint) for name, hint in get_type_hints(kind).items()}
    return {name: fits for name, fits in found.items() if fits is not None}


def _fits(hint: Any) -> Fits | None:
    """The check of one type; None for a type that is not plain."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Mapping:
        of_values = _PLAIN.get(arguments[1], lambda value: True)
        return lambda value: isinstance(value, dict) and all(map(of_values, value.values()))
    if isinstance(hint, types.UnionType):
        checks = [_PLAIN[each] for each in arguments if each in _PLAIN]
        return _any_of(*checks) if len(checks) == len(arguments) else None
    if origin in (list, tuple) and arguments[0] in _PLAIN and arguments[1:] in ((), (...,)):
        each = _PLAIN[arguments[0]]
        return lambda value: isinstance(value, list | tuple) and all(map(each, value))
    return _PLAIN.get(hint)


def _any_of(first: Fits, *others: Fits) -> Fits:
    """Whether one of them fits: the first in most cases."""
    return lambda value: first(value) or any(fits(value) for fits in others)
