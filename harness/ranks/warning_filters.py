"""The filters of warnings by which pytest runs a test, as text for the test's ranks, which apply them too.

Each is what ``warnings.filterwarnings`` takes: an action, patterns of the message and the module, a category
and a line. The category is sent by the name by which ranks can import it.
"""

from __future__ import annotations

import importlib
import json
import operator
import sys
import warnings
from collections.abc import Iterable
from typing import Any

# Action, pattern of the message, category, pattern of the module, line; as pytest parses a filter.
Filter = tuple[Any, str, type[Warning], str, int]


def encoded(filters: Iterable[Filter]) -> list[str]:
    """The filters as text, in the order in which they are set: the last one is asked first."""
    return [json.dumps([a, m, k.__module__, k.__qualname__, f, n]) for a, m, k, f, n in filters]


def apply(texts: Iterable[str]) -> None:
    """Sets the filters in this process, before those that it has.

    One whose category cannot be imported here is left out: no warning here can be of that class.
    """
    for text in texts:
        action, message, home, name, module, line = json.loads(text)
        category = _category(home, name)
        if category is not None:
            warnings.filterwarnings(action, message, category, module, line)


def _category(module: str, qualname: str) -> type[Warning] | None:
    try:
        home = sys.modules.get(module) or importlib.import_module(module)
        found = operator.attrgetter(qualname)(home)
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) and issubclass(found, Warning) else None
