"""Collects what a rank prints: the end of it in memory, all of it in a log file where one is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from harness.ranks.processes.live_output import Shown

# How much of the end of each rank's output is kept; the output around a failure is far shorter.
TAIL_BYTES = 64 * 1024
# A log file stops growing here: a rank that prints for two minutes must not fill the disk.
LOG_BYTES = 64 * 1024 * 1024


class Output:
    """The output of one rank, which ``shown`` shows as it comes.

    Owns the rank's log file, if there is one, which ``close`` closes.
    """

    def __init__(self, *, shown: Shown | None = None, log: Path | None = None) -> None:
        self._tail = bytearray()
        self._total = 0
        self._shown = shown
        self.log_path = log
        self._log: BinaryIO | None = log.open("wb") if log is not None else None

    def feed(self, data: bytes) -> None:
        """Adds the bytes that the rank printed next."""
        self._total += len(data)
        self._tail += data
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]
        if self._log is not None and self._total <= LOG_BYTES:
            self._log.write(data)
        if self._shown is not None:
            self._shown.feed(data)

    def text(self) -> str:
        """The end of the output as text, with the number of bytes left out before it."""
        kept = bytes(self._tail[-TAIL_BYTES:])
        left_out = self._total - len(kept)
        text = kept.decode("utf-8", errors="backslashreplace")
        return f"[... {left_out} bytes left out ...]\n{text}" if left_out else text

    def close(self) -> None:
        """Shows the rest of what the rank printed, and closes the log file."""
        if self._shown is not None:
            self._shown.close()
        if self._log is not None:
            self._log.close()
            self._log = None
