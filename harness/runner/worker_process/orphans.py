"""``Orphans``: the processes that workers leave behind, until they have ended or been killed.

Workers adopt the orphans among their descendants; when a worker ends, its parent, the zygote, does.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Container

from harness.system import posix

# Seconds until processes that outlive their worker are killed: fork servers and resource trackers notice the
# end of their parent within milliseconds and end themselves.
GRACE_S = 1.0


class Orphans:
    """The children of this process that are no ``workers``, by the time when their grace is over."""

    def __init__(self, workers: Container[int]) -> None:
        self._workers = workers
        self._grace_over: dict[int, float] = {}

    def __bool__(self) -> bool:
        return bool(self._grace_over)

    def note(self) -> None:
        """Finds those that there are now; the grace of new ones begins."""
        over = time.monotonic() + GRACE_S
        for pid in posix.children():
            if pid not in self._workers:
                self._grace_over.setdefault(pid, over)

    def timeout_s(self) -> float | None:
        """Seconds until ``end`` is to be called again; None where there are no orphans."""
        if not self._grace_over:
            return None
        return max(0.0, min(GRACE_S / 10, min(self._grace_over.values()) - time.monotonic()))

    def end(self) -> None:
        """Reaps those that have ended and kills those whose grace is over, until there are no new ones."""
        while self._grace_over:
            now = time.monotonic()
            ended = [pid for pid, over in self._grace_over.items() if _ended(pid, now > over)]
            for pid in ended:
                del self._grace_over[pid]
            if not ended:
                return
            self.note()


def _ended(pid: int, overdue: bool) -> bool:
    """Reaps an orphan that has ended, kills it first where it is overdue; returns whether it is gone."""
    try:
        if overdue:
            os.kill(pid, signal.SIGKILL)
        return os.waitpid(pid, 0 if overdue else os.WNOHANG)[0] == pid
    except (ChildProcessError, ProcessLookupError):
        return True
