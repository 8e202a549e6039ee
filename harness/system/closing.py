"""What this process keeps beyond a test, and the order in which it is ended: at exit, or by ``close_all``.

Whoever keeps something for the life of a process (temporary files, a pool of ranks, servers) has it ended
here. What was registered last is ended first, so that ranks go before the servers that they come from.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.system.per_process import PerProcess


@dataclass(slots=True)
class _Kept:
    """The calls that end what a process keeps, in the order in which they were registered."""

    calls: list[Callable[[], None]] = field(default_factory=list)


def _begin() -> _Kept:
    atexit.register(close_all)
    return _Kept()


_kept = PerProcess(_begin)


def on_close(call: Callable[[], None]) -> None:
    """Registers a call for each ``close_all`` and the exit; it comes before those registered earlier."""
    _kept.get().calls.append(call)


def close_all() -> None:
    """Ends all that this process keeps; what is needed later is made anew."""
    kept = _kept.held()
    if kept is not None:
        for call in reversed(kept.calls):
            call()
