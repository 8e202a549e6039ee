"""What processes leave behind that a server is the parent of, by birth or by adoption."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection

from harness.system import posix

# Seconds that orphans, all together, may take to end by themselves before they count as left behind: helper
# processes of multiprocessing notice the end of their rank within milliseconds.
ORPHAN_GRACE_S = 0.25


def reap(pid: int) -> tuple[int, int]:
    """Exit code as ``subprocess`` has it, and peak memory in bytes."""
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024


class Reaper:
    """Tells the children of a server apart: its ranks, the orphans of its ranks, and its helpers.

    Helpers are what a module started when the server imported it (a manager of multiprocessing's, say): ranks
    find them as they would in the process that they are a fork of, and they live as long as the server.
    """

    def __init__(self) -> None:
        self.helpers: set[int] = set()

    def take_as_helpers(self, before: Collection[int]) -> None:
        """Has the children live on that are here now and were not ``before``."""
        self.helpers |= set(posix.children()).difference(before)

    def sweep(self, ranks: Collection[int]) -> list[str]:
        """Ends the orphans of ranks that are gone; says which had not ended by themselves."""
        leaked: list[str] = []
        while orphans := self._orphans(ranks):
            for pid in posix.still_running(orphans, ORPHAN_GRACE_S):
                leaked.append(f"process {pid}: {posix.command_line(pid)}")
                _kill(pid)
            for pid in orphans:
                reap(pid)
        return leaked

    def _orphans(self, ranks: Collection[int]) -> list[int]:
        return [pid for pid in posix.children() if pid not in ranks and pid not in self.helpers]

    def end_helpers(self) -> None:
        """Ends the helpers; those that wait for the end of a descriptor of ours must have seen it."""
        helpers = self.helpers.intersection(posix.children())
        for pid in helpers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        for pid in posix.still_running(helpers, ORPHAN_GRACE_S):
            _kill(pid)
        for pid in helpers:
            with contextlib.suppress(ChildProcessError):
                reap(pid)
        self.helpers.clear()
        self.sweep(())  # what they were the parents of


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
