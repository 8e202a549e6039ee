"""Decides the order in which a process's pools, servers and temporary files are closed at exit.

Code that keeps something for the life of a process registers its closing here. What was registered last is
closed first, so ranks end before the servers that started them.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.system.per_process import PerProcess


@dataclass(slots=True)
class _Kept:
    """The registered calls, in the order of their registration."""

    calls: list[Callable[[], None]] = field(default_factory=list)


def _begin() -> _Kept:
    atexit.register(close_all)
    return _Kept()


_kept = PerProcess(_begin)


def on_close(call: Callable[[], None]) -> None:
    """Registers a call for each ``close_all`` and for the exit; it runs before those registered earlier."""
    _kept.get().calls.append(call)


def close_all() -> None:
    """Runs all registered calls, latest first; pools and servers that are needed later are made again."""
    kept = _kept.held()
    if kept is not None:
        for call in reversed(kept.calls):
            call()
