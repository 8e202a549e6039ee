"""``CollectiveLog``: shared memory with name, group, number and times of each rank's last collectives.

It is shared memory so that the parent can read it even where the rank is stuck in C or dead. Layout per rank:
a count, the time at which the rank's test began, then a ring of fixed-size entries.
"""

from __future__ import annotations

import mmap
import struct
import time

from harness.outcomes import CollectiveRecord

PAGE_BYTES = 4096
# entries written, start of the test on the monotonic clock (0.0: not begun)
_HEAD = struct.Struct("<Qd")
_COUNT = struct.Struct("<Q")
# operation, group, sequence number in the group, start and end on the monotonic clock (0.0: not ended)
_ENTRY = struct.Struct("<28s32sIdd")
_FIRST = _HEAD.size
ENTRIES = (PAGE_BYTES - _FIRST) // _ENTRY.size


def size(world_size: int) -> int:
    """The size in bytes of the pages of all ranks of a launch."""
    return PAGE_BYTES * world_size


class CollectiveLog:
    """The writer of one rank's page, used in that rank."""

    def __init__(self, memory: mmap.mmap, rank: int) -> None:
        self._memory = memory
        self._base = rank * PAGE_BYTES
        self._count = 0

    def clear(self) -> None:
        """Removes what the log says of an earlier test."""
        self._count = 0
        _HEAD.pack_into(self._memory, self._base, 0, 0.0)

    def begin_test(self) -> None:
        """Records that the rank has all that it needs, and begins its test."""
        _HEAD.pack_into(self._memory, self._base, self._count, time.monotonic())

    def begin(self, operation: str, group: str, sequence: int) -> int:
        """Records that a collective starts; returns its token for ``end``."""
        token = self._count
        entry = (operation.encode()[:28], group.encode()[:32], sequence, time.monotonic(), 0.0)
        _ENTRY.pack_into(self._memory, self._at(token), *entry)
        self._count += 1
        _COUNT.pack_into(self._memory, self._base, self._count)
        return token

    def end(self, token: int) -> None:
        """Records that a collective has ended; does nothing where the ring has dropped its entry since."""
        if self._count - token <= ENTRIES:
            offset = self._at(token) + _ENTRY.size - 8
            struct.pack_into("<d", self._memory, offset, time.monotonic())

    def _at(self, token: int) -> int:
        return self._base + _FIRST + (token % ENTRIES) * _ENTRY.size


def read(memory: mmap.mmap, rank: int) -> tuple[CollectiveRecord, ...]:
    """A rank's last collectives, oldest first; at most ``ENTRIES``."""
    base = rank * PAGE_BYTES
    (count,) = _COUNT.unpack_from(memory, base)
    records = []
    for token in range(max(0, count - ENTRIES), count):
        entry = _ENTRY.unpack_from(memory, base + _FIRST + (token % ENTRIES) * _ENTRY.size)
        operation, group, sequence, started, ended = entry
        records.append(CollectiveRecord(_text(operation), _text(group), sequence, started, ended or None))
    return tuple(records)


def began_s(memory: mmap.mmap, rank: int) -> float | None:
    """When a rank began its test, in seconds on the monotonic clock; None where it has not begun."""
    _, began = _HEAD.unpack_from(memory, rank * PAGE_BYTES)
    return began or None


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode(errors="replace")
