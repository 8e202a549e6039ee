"""Which launcher this process uses: one of each kind, kept for its life and ended with it.

Here is also where whoever else keeps something for the life of a process has it ended, in the right order:
ranks and their files first, then the servers.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.errors import LaunchError
from harness.ranks.processes.fork_server import ForkServerLauncher
from harness.ranks.processes.rank_set import Launcher
from harness.ranks.processes.spawn import SpawnLauncher
from harness.system.per_process import PerProcess


@dataclass(slots=True)
class _ProcessLaunchers:
    """A process's launchers by name, and what is to be done before they end."""

    launchers: dict[str, Launcher] = field(default_factory=dict)
    before: list[Callable[[], None]] = field(default_factory=list)


def _begin() -> _ProcessLaunchers:
    atexit.register(close_all)
    return _ProcessLaunchers()


_kept = PerProcess(_begin)


def launcher(name: str | None) -> Launcher:
    """The process's launcher of that name; None for the fork server where forks are safe, else for spawn.
    "external" is as None: a rank that somebody else started may itself start the process in which all ranks
    of a test are simulated.

    LaunchError on another platform than Linux: ranks as threads, or simulated in one process, need none.
    """
    if sys.platform != "linux":
        raise LaunchError(f"ranks as processes need Linux (pidfd, SCM_RIGHTS); this is {sys.platform}")
    launchers = _kept.get().launchers
    key = "auto" if name in (None, "external") else name
    if key not in launchers:
        launchers[key] = _MAKE[key]()
    return launchers[key]


_MAKE: dict[str, Callable[[], Launcher]] = {
    "auto": lambda: ForkServerLauncher(fallback=lambda: launcher("spawn")),
    "forkserver": ForkServerLauncher,
    "spawn": SpawnLauncher,
}


def on_close(call: Callable[[], None]) -> None:
    """Has something done before this process's servers end, at each ``close_all`` and at exit: for owners of
    what outlives a test. The last that asks is the first that is called."""
    _kept.get().before.append(call)


def close_all() -> None:
    """Ends what this process keeps, its servers last. A later launch starts new ones."""
    kept = _kept.held()
    if kept is None:
        return
    for call in reversed(kept.before):
        call()
    while kept.launchers:
        kept.launchers.popitem()[1].close()
