"""Decides whether a test module does something else in a process that another one started.

Upstream's ranks import the module themselves, as children; such a module is to be imported in each rank here
too. It is known by its source: it asks ``multiprocessing`` which process this is, or how processes start.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys

_ASKS = re.compile(r"\b(?:current_process|parent_process|get_start_method)\s*\(")


def asking_line(source: str) -> int | None:
    """The first line of a module's source, from 1, that asks; None where none does."""
    found = _ASKS.search(source)
    return source.count("\n", 0, found.start()) + 1 if found is not None else None


@functools.cache
def differs_in_children(module_name: str) -> bool:
    """Whether the source of an imported module asks; False where there is no source."""
    module = sys.modules.get(module_name)
    try:
        return module is not None and asking_line(inspect.getsource(module)) is not None
    except (OSError, TypeError):
        return False
