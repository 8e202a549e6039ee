"""``CollectiveLog``: shared memory with name, group, number and times of each rank's last collectives.

It is shared memory so that the parent can read it even where the rank is stuck in C or dead. Layout per rank:
a count, then a ring of fixed-size entries.
"""

from __future__ import annotations

import mmap
from struct import Struct, pack_into
from time import monotonic  # by name: collectives are noted while a test may have it replaced

from harness.outcomes import CollectiveRecord

PAGE_BYTES = 4096
_COUNT = Struct("<Q")
# operation, group, sequence number in the group, start and end on the monotonic clock (0.0: not ended)
_ENTRY = Struct("<28s32sIdd")
_FIRST = 16
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
        """Removes all entries, before another test begins."""
        self._count = 0
        _COUNT.pack_into(self._memory, self._base, 0)

    def begin(self, operation: str, group: str, sequence: int) -> int:
        """Records that a collective starts; returns its token for ``end``."""
        token = self._count
        entry = (operation.encode()[:28], group.encode()[:32], sequence, monotonic(), 0.0)
        _ENTRY.pack_into(self._memory, self._at(token), *entry)
        self._count += 1
        _COUNT.pack_into(self._memory, self._base, self._count)
        return token

    def end(self, token: int) -> None:
        """Records that a collective has ended; does nothing where the ring has dropped its entry since."""
        if self._count - token <= ENTRIES:
            offset = self._at(token) + _ENTRY.size - 8
            pack_into("<d", self._memory, offset, monotonic())

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


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode(errors="replace")
