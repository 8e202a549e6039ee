"""``CollectiveLog``: a page of memory with name, group, number and times of a rank's last collectives.

A rank that is a process has it in a memory file of its own, which the parent can read even where the rank is
stuck in C or dead. The parent never maps that file: where it can be shrunk, a mapping behind its end kills
the process that reads it. Layout: a count, the time at which the rank's test began, then a ring of fixed-size
entries.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import os
from struct import Struct, pack_into
from time import monotonic  # by name: collectives are noted while a test may have it replaced

from harness.outcomes import CollectiveRecord

PAGE_BYTES = 4096
# entries written, start of the test on the monotonic clock (0.0: not begun)
_HEAD = Struct("<Qd")
_COUNT = Struct("<Q")
# operation, group, sequence number in the group, start and end on the monotonic clock (0.0: not ended)
_ENTRY = Struct("<28s32sIdd")
_FIRST = _HEAD.size
ENTRIES = (PAGE_BYTES - _FIRST) // _ENTRY.size


def memory_file() -> int:
    """Makes the memory file of one rank's page, and returns its descriptor.

    The rank maps it and would die of SIGBUS in its next collective, so nobody may shrink it, where the kernel
    can forbid that.
    """
    memory = os.memfd_create("harness-collectives", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, PAGE_BYTES)
    with contextlib.suppress(OSError):  # some sandboxes have no seals: such a rank harms itself alone
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return memory


class CollectiveLog:
    """The writer of a rank's page, used in that rank."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._count = 0

    def clear(self) -> None:
        """Removes what the log says of an earlier test."""
        self._count = 0
        _HEAD.pack_into(self._memory, 0, 0, 0.0)

    def begin_test(self) -> None:
        """Records that the rank has all that it needs, and begins its test."""
        _HEAD.pack_into(self._memory, 0, self._count, monotonic())

    def begin(self, operation: str, group: str, sequence: int) -> int:
        """Records that a collective starts; returns its token for ``end``."""
        token = self._count
        entry = (operation.encode()[:28], group.encode()[:32], sequence, monotonic(), 0.0)
        _ENTRY.pack_into(self._memory, _at(token), *entry)
        self._count += 1
        _COUNT.pack_into(self._memory, 0, self._count)
        return token

    def end(self, token: int) -> None:
        """Records that a collective has ended; does nothing where the ring has dropped its entry since."""
        if self._count - token <= ENTRIES:
            pack_into("<d", self._memory, _at(token) + _ENTRY.size - 8, monotonic())


def _at(token: int) -> int:
    return _FIRST + (token % ENTRIES) * _ENTRY.size


def read_file(memory: int) -> tuple[CollectiveRecord, ...]:
    """``read`` of the page in a memory file, of which the rank may have cut off a part or all."""
    return read(os.pread(memory, PAGE_BYTES, 0).ljust(PAGE_BYTES, b"\0"))


def read(page: bytes | mmap.mmap) -> tuple[CollectiveRecord, ...]:
    """A rank's last collectives, oldest first, at most ``ENTRIES``.

    Entries that no rank writes are left out: the test may have overwritten the page.
    """
    (count,) = _COUNT.unpack_from(page)
    records = []
    for token in range(max(0, count - ENTRIES), count):
        operation, group, sequence, started, ended = _ENTRY.unpack_from(page, _at(token))
        if 0.0 < started < math.inf and (ended == 0.0 or started <= ended < math.inf):
            records.append(CollectiveRecord(_text(operation), _text(group), sequence, started, ended or None))
    return tuple(records)


def began_s(memory: int) -> float | None:
    """When a rank began its test, in seconds on the monotonic clock; None where it has not begun."""
    _, began = _HEAD.unpack(os.pread(memory, _FIRST, 0).ljust(_FIRST, b"\0"))
    return began if 0.0 < began < math.inf else None


def _text(raw: bytes) -> str:
    text = raw.rstrip(b"\0").decode(errors="replace")
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
