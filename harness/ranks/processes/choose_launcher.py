"""Chooses the launcher of rank processes: ``HARNESS_LAUNCHER``, else the fork server where forks are safe.

Where they are not safe, spawn replaces the fork server. Each kind of launcher exists once per process and is
kept until the process ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from harness.errors import LaunchError
from harness.ranks.processes.fork_server import ForkServerLauncher
from harness.ranks.processes.launcher import Launcher
from harness.ranks.processes.spawn import SpawnLauncher
from harness.system.closing import on_close
from harness.system.per_process import PerProcess


class _ProcessLaunchers(dict[str, Launcher]):
    """The launchers of one process, by name."""

    def close(self) -> None:
        """Ends the launchers' servers; a later launch starts new ones."""
        while self:
            self.popitem()[1].close()


def _begin() -> _ProcessLaunchers:
    launchers = _ProcessLaunchers()
    on_close(launchers.close)
    return launchers


_launchers = PerProcess(_begin)


def launcher(name: str | None) -> Launcher:
    """The process's launcher of that name; None means the fork server, or spawn where forks are unsafe.

    "external" means the same as None here: a rank that an external launcher started may itself start the one
    process in which all ranks of a test are simulated. LaunchError on platforms other than Linux, where only
    threads and simulated ranks work.
    """
    if sys.platform != "linux":
        raise LaunchError(f"ranks as processes need Linux (pidfd, SCM_RIGHTS); this is {sys.platform}")
    launchers = _launchers.get()
    key = "auto" if name in (None, "external") else name
    if key not in launchers:
        launchers[key] = _MAKE[key]()
    return launchers[key]


_MAKE: dict[str, Callable[[], Launcher]] = {
    "auto": lambda: ForkServerLauncher(fallback=lambda: launcher("spawn")),
    "forkserver": ForkServerLauncher,
    "spawn": SpawnLauncher,
}
