"""``checked``: whether the plain fields of a message have values that its readers can work with.

Messages and records are JSON, and a test can corrupt the process that sends them. So the receiver checks what
it would otherwise compute with, compare or print.
"""

from __future__ import annotations

import functools
import types
from typing import Any, get_args, get_type_hints

# Every honest number is below: times in seconds, bytes, exit codes, seeds. Some that are not cannot be
# computed with or printed: infinity, "not a number", integers of thousands of digits.
LARGEST_NUMBER = 2**64

_PLAIN = frozenset({str, int, float, bool, type(None)})


def checked(kind: Any, value: dict[str, Any]) -> dict[str, Any]:
    """The values by name of some fields of a dataclass, as they came from JSON.

    TypeError or ValueError where a plain field (text, a number, or None in place of one) cannot have its
    value. Fields of other types are not looked at.
    """
    plain = _plain_types(kind)
    for name, field_value in value.items():
        if name not in plain:
            continue
        if type(field_value) not in plain[name]:
            raise TypeError(f"{name} is of the type {type(field_value).__name__}")
        if isinstance(field_value, int | float) and not abs(field_value) < LARGEST_NUMBER:
            raise ValueError(f"{name} is no number for this")
    return value


@functools.cache
def _plain_types(kind: Any) -> dict[str, tuple[type, ...]]:
    """The JSON types of each plain field of a dataclass."""
    hints = get_type_hints(kind).items()
    kinds_of = {
        name: get_args(hint) if isinstance(hint, types.UnionType) else (hint,) for name, hint in hints
    }
    return {
        name: (*kinds, int) if float in kinds else kinds
        for name, kinds in kinds_of.items()
        if all(each in _PLAIN for each in kinds)
    }
