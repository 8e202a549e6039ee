"""Moves a process's memory into 2 MB pages, which makes its forks faster: they copy a smaller page table.

torch and its dependencies use some 150 MB of anonymous memory in 4 KB pages; in 2 MB pages a fork takes a
third of the time, and the end of the child less too. On a kernel that does not support it (before Linux 6.1,
or with huge pages off) nothing changes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

_HUGE_BYTES = 2 * 1024 * 1024
_MADV_HUGEPAGE = 14
_MADV_COLLAPSE = 25
# Collapsing costs some 0.2 s of one processor, as much as it saves on about this many forks.
WORTHWHILE_FORKS = 24


def collapse() -> int:
    """Moves this process's writable anonymous memory into huge pages; returns the number of bytes moved."""
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    done = 0
    for start, end in _ranges():
        address, size = ctypes.c_void_p(start), ctypes.c_size_t(end - start)
        if madvise(address, size, _MADV_HUGEPAGE) == 0 and madvise(address, size, _MADV_COLLAPSE) == 0:
            done += end - start
    return done


def _ranges() -> Iterator[tuple[int, int]]:
    """The parts of anonymous, writable mappings that consist of whole huge pages."""
    with open("/proc/self/maps") as maps:
        lines = maps.read().splitlines()
    for line in lines:
        addresses, access, _, _, _, *name = line.split(maxsplit=5)
        if "w" not in access or "s" in access or (name and name[0] != "[heap]"):
            continue
        low, high = (int(a, 16) for a in addresses.split("-"))
        start, end = -(-low // _HUGE_BYTES) * _HUGE_BYTES, high // _HUGE_BYTES * _HUGE_BYTES
        if end > start:
            yield start, end
