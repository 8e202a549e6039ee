"""``Waiting``: how long the processes that this one has started wait for a processor, which is no hang.

Linux counts it for each process; elsewhere nothing is known to wait.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import psutil

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# Seconds between two looks. What a process waits after the last one before its end is not seen.
LOOKS_S = 0.2


class Waiting:
    """A while in which the waiting of all descendants of this process is counted."""

    def __init__(self) -> None:
        self._before = delays()
        self._longest = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="waiting", daemon=True)

    def __enter__(self) -> Waiting:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        """What the process has waited that has waited longest, as far as it was seen."""
        return self._longest

    def look(self) -> None:
        """Sees how long the processes that are there have waited in this while."""
        waited = (delay - self._before.get(process, 0.0) for process, delay in delays().items())
        self._longest = max(self._longest, *waited, 0.0)

    def _watch(self) -> None:
        while not self._ended.wait(LOOKS_S):
            self.look()


def delays() -> dict[psutil.Process, float]:
    """The seconds for which each descendant of this process was ready to run and had no processor."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(OSError):  # it has ended, or the system does not count
            text = Path(f"/proc/{process.pid}/schedstat").read_text(encoding="ascii")
            found[process] = int(text.split()[1]) / 1e9
    return found


def patience_after(patience: float, timeout_s: float, waited_s: float) -> float | None:
    """How many times its time a program gets next that timed out after ``patience`` times.

    None where it had all of its time beside what it waited for a processor: it hangs.
    """
    if patience * timeout_s - waited_s >= timeout_s:
        return None
    return patience + waited_s / timeout_s
