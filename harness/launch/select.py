"""Which launcher this process uses: one of each kind, kept for its life and ended with it.

The only state of the launch layer that outlives a test. It is keyed by process id, because a fork of this
process must start servers of its own.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable

from harness.errors import LaunchError
from harness.launch.forkserver import ForkServerLauncher
from harness.launch.spawn import SpawnLauncher

AnyLauncher = ForkServerLauncher | SpawnLauncher

_kept: dict[tuple[int, str], AnyLauncher] = {}
_before_close: list[tuple[int, Callable[[], None]]] = []


def launcher(name: str | None) -> AnyLauncher:
    """The process's launcher of that name; None chooses the fastest that is safe on this platform."""
    if sys.platform != "linux":
        raise LaunchError(f"ranks as processes need Linux (pidfd, SCM_RIGHTS); this is {sys.platform}")
    key = (os.getpid(), name or "forkserver")
    if key not in _kept:
        if not any(pid == key[0] for pid, _ in _kept):
            atexit.register(close_all)
        _kept[key] = SpawnLauncher() if key[1] == "spawn" else ForkServerLauncher()
    return _kept[key]


def on_close(call: Callable[[], None]) -> None:
    """Has something done before this process's servers end: for owners of ranks that outlive a test."""
    _before_close.append((os.getpid(), call))


def close_all() -> None:
    """Ends the servers that this process started. A later launch starts new ones."""
    for pid, call in _before_close:
        if pid == os.getpid():
            call()
    _before_close.clear()
    for key in [k for k in _kept if k[0] == os.getpid()]:
        _kept.pop(key).close()
