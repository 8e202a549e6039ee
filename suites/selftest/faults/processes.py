"""Watches the end of processes that a self-test did not start itself, by pidfd and never by number."""

from __future__ import annotations

import os
import select
import signal
import time
import types

# Seconds until a broken self-test gives up; no healthy one waits this long.
ANNOUNCE_S = 300.0


class Announced:
    """Reads the process ids that ranks announce on a FIFO in ``directory`` (``faults.base.announce``).

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
        """Waits until ``count`` processes are announced and returns their ids; they may have ended since."""
        while len(self._pids()) < count:
            ready, _, _ = select.select([self._reader], [], [], ANNOUNCE_S)
            assert ready, f"of {count} processes these were announced: {self._pids()}"
            self._text += os.read(self._reader, 65536)
        return self._pids()

    def wait_for(self, count: int) -> list[int]:
        """Waits until ``count`` processes are announced and opens their pidfds; they must still be alive."""
        for pid in self.read(count):
            if pid not in self._pidfds:
                self._pidfds[pid] = os.pidfd_open(pid)
        return self._pids()

    def _pids(self) -> list[int]:
        """Returns all process ids that were announced in whole lines so far."""
        return [int(p) for p in self._text[: self._text.rfind(b"\n") + 1].split()]

    def survivors(self, within_s: float) -> list[int]:
        """Returns those processes of ``wait_for`` that have not ended after ``within_s`` seconds."""
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
    """Returns the pids that do not end within ``within_s`` seconds each; a free pid counts as ended."""
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
