"""Options of collectives, for the tests of what is read of a call's arguments."""

from __future__ import annotations

from typing import Any


def options(kind: Any, **fields: Any) -> Any:
    """Options of a collective with some fields set."""
    made = kind()
    for name, value in fields.items():
        setattr(made, name, value)
    return made
