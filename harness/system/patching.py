"""``replaced``: sets an attribute of a module or class for the duration of a ``with`` block.

``unittest.mock`` can do it too, but imports asyncio, which a test's base class does not need.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """A region in which ``owner``'s attribute ``name`` is ``value``; KeyError where it defines none."""
    before = vars(owner)[name]  # not getattr, which would bind a class's function or descriptor
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
