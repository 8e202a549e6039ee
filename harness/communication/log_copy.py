"""``LogSource``: what has changed in a rank's call log, for the copy of it that is kept on another host.

The copy is a memory file of the same layout, so that whoever reads logs reads it in the same way. Times in it
are on the clock of its host.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from harness.communication.call_log import LOG_BYTES, Observation, shifted_copy

# Bytes that are compared and sent together. A call changes 48 bytes of the ring and 32 of the head.
_PIECE = 512


class LogSource:
    """Knows what a copy of one log holds. ``memory`` is the descriptor of the log, which it does not own."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._sent = bytes(LOG_BYTES)

    def changes(self, shift_s: float, observation: Observation) -> Iterator[tuple[int, bytes]]:
        """The pieces, with their offsets, that make the copy equal to the log as it is now.

        ``shift_s`` are the seconds to add to this host's monotonic clock for the copy's.
        """
        now = shifted_copy(self._memory, shift_s, observation)
        before, self._sent = self._sent, now + self._sent[len(now) :]
        if now == before[: len(now)]:
            return
        for start in range(0, len(now), _PIECE):
            piece = now[start : start + _PIECE]
            if piece != before[start : start + len(piece)]:
                yield start, piece


def apply(memory: int, offset: int, piece: bytes) -> None:
    """Writes a piece into a copy; ValueError for one that would not lie within it."""
    if offset < 0 or offset + len(piece) > LOG_BYTES:
        raise ValueError(f"a piece of a call log at {offset}, which has {LOG_BYTES} bytes")
    os.pwrite(memory, piece, offset)
