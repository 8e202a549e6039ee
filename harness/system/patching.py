"""An attribute of somebody else's that is another for a while.

``unittest.mock`` does it too, and brings asyncio, of which a test's base class has no use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Within, ``owner`` has this attribute in place of its own; KeyError where it has none of that name."""
    before = vars(owner)[name]  # as the owner has it: an attribute of a class may not be what binds
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
