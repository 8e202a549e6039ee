"""The few system calls around processes that the standard library has no name for.

Linux only in part: where a call is missing the function says so by its result, and its caller has
another way.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def die_with_parent(signum: int) -> bool:
    """Asks for a signal when the parent *thread* ends, however it ends; False where there is no such call."""
    return sys.platform == "linux" and bool(_libc().prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0) == 0)


def adopt_orphans() -> bool:
    """Makes this process the parent of its descendants' orphans, so that it can find and end them."""
    return sys.platform == "linux" and bool(_libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def flush_c_streams() -> None:
    """Writes out what C code left in its stdio buffers."""
    _libc().fflush(None)


def os_threads() -> int:
    """Threads of this process as the operating system counts them, Python's and others'."""
    try:
        return len(os.listdir("/proc/self/task"))
    except FileNotFoundError:
        import threading

        return threading.active_count()


def children() -> list[int]:
    """Process ids of this process's children, adopted ones too (main thread's; servers have only that)."""
    pid = os.getpid()
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_zombie(pid: int) -> bool:
    """True where the process has ended and only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def command_line(pid: int) -> str:
    """What a process was started as, for a person to read."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return "(gone)"
    return raw.replace(b"\0", b" ").decode(errors="replace").strip() or "(no command line)"
