"""``Reaper``: ends and reports the processes that ranks leave behind, in the server that adopts them."""

from __future__ import annotations

import contextlib
import os
import resource  # noqa: F401 - os.wait4 imports it, and a test may have changed sys.path by then
import signal
import time
from collections.abc import Collection, Sequence

from harness.system import posix

# Seconds for all orphans together to end by themselves before they count as left behind: the helper
# processes of multiprocessing notice the end of their rank within milliseconds.
ORPHAN_GRACE_S = 0.25
# How many such graces an orphan gets that uses them: on a busy machine those helpers are still about to end,
# or even to start. Together less than the grace for ranks to exit, in which the sweep is awaited.
MOST_GRACES = 20


def reap(pid: int) -> tuple[int, int]:
    """Waits for a child; returns its exit code as in ``subprocess`` and its peak memory in bytes."""
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024


class Reaper:
    """Distinguishes the children of a server: its ranks, the orphans of ended ranks, and its helpers.

    Helpers are processes that a module started when the server imported it (multiprocessing's manager, for
    example): ranks may use them, and they run as long as the server.
    """

    def __init__(self) -> None:
        self.helpers: set[int] = set()

    def register_helpers(self, before: Collection[int]) -> None:
        """Counts the children that exist now and were not in ``before`` as helpers."""
        self.helpers |= set(posix.children()).difference(before)

    def sweep(self, ranks: Collection[int]) -> list[str]:
        """Ends the orphans of ranks that have ended; returns a line for each that had not ended by itself.

        Where orphans have come after one another for as long as one may take, as in a chain of which each
        forks the next and exits, they are killed at sight: whoever waits for one of them finds the next.
        """
        leaked: list[str] = []
        until = time.monotonic() + MOST_GRACES * ORPHAN_GRACE_S
        while orphans := self._orphans(ranks):
            for pid in orphans if time.monotonic() >= until else _left_behind(orphans):
                leaked.append(f"process {pid}: {posix.command_line(pid)}")
                _kill(pid)
            for pid in orphans:
                reap(pid)
        return leaked

    def _orphans(self, ranks: Collection[int]) -> list[int]:
        return [pid for pid in posix.children() if pid not in ranks and pid not in self.helpers]

    def end_helpers(self) -> None:
        """Ends the helpers; the server's descriptors are closed by then, which ends some of them already."""
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
        self.sweep(())  # the helpers' own children are orphans now


def _left_behind(orphans: Sequence[int]) -> list[int]:
    """The orphans that do not end by themselves: they wait for something, or have worked for all graces."""
    left: set[int] = set()
    working: Sequence[int] = orphans
    for _ in range(MOST_GRACES):
        running = posix.still_running(working, ORPHAN_GRACE_S)
        working = [pid for pid in running if posix.is_working(pid)]
        # One that has ended since it was seen running has ended by itself.
        left.update(pid for pid in running if pid not in working and not posix.is_zombie(pid))
        if not working:
            break
    return [pid for pid in orphans if pid in left or pid in working]


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
