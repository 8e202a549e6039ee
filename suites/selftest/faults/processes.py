"""Processes that a self-test did not start itself, and has to see end: known by pidfd, never by number."""

from __future__ import annotations

import os
import select
import signal
import time
import types

# Seconds for a broken self-test to end; no healthy one waits for it.
ANNOUNCE_S = 60.0


class Announced:
    """The process ids that ranks announce on a FIFO in ``directory`` (``faults.base.announce``).

    A context manager that owns the FIFO and a pidfd for each process.
    """

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "announced")
        os.mkfifo(self.path)
        self._reader = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        self._text = b""
        self._pidfds: dict[int, int] = {}

    def __enter__(self) -> Announced:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        for pidfd in self._pidfds.values():
            if not _is_gone(pidfd, 0.0):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
        os.close(self._reader)
        os.remove(self.path)

    def read(self, count: int) -> list[int]:
        """Waits until ``count`` processes are announced; they may have ended since."""
        while len(self._pids()) < count:
            ready, _, _ = select.select([self._reader], [], [], ANNOUNCE_S)
            assert ready, f"of {count} processes these were announced: {self._pids()}"
            self._text += os.read(self._reader, 65536)
        return self._pids()

    def wait_for(self, count: int) -> list[int]:
        """Waits until ``count`` processes are announced; they must be alive by then."""
        for pid in self.read(count):
            if pid not in self._pidfds:
                self._pidfds[pid] = os.pidfd_open(pid)
        return self._pids()

    def _pids(self) -> list[int]:
        """All process ids announced in whole lines so far."""
        return [int(p) for p in self._text[: self._text.rfind(b"\n") + 1].split()]

    def survivors(self, within_s: float) -> list[int]:
        """Those of ``wait_for`` that have not ended when ``within_s`` seconds are over."""
        deadline = time.monotonic() + within_s
        return [
            pid
            for pid, pidfd in self._pidfds.items()
            if not _is_gone(pidfd, max(0.0, deadline - time.monotonic()))
        ]


def _is_gone(pidfd: int, within_s: float) -> bool:
    ready, _, _ = select.select([pidfd], [], [], within_s)
    return bool(ready)


def still_there(pids: list[int], within_s: float = 0.0) -> list[int]:
    """Those that do not end within so many seconds each; a number that is free counts as ended."""
    return [pid for pid in pids if not _ends(pid, within_s)]


def _ends(pid: int, within_s: float) -> bool:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return _is_gone(pidfd, within_s)
    finally:
        os.close(pidfd)
