"""The few questions and requests around processes that the standard library has no name for. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import sys
import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# There where the kernel was built with CONFIG_PROC_CHILDREN.
_CHILDREN = "/proc/{pid}/task/{pid}/children"


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def die_with_parent(signum: int) -> bool:
    """Asks for a signal when the parent *thread* ends, however it ends; False where the kernel refuses."""
    return bool(_libc().prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0) == 0)


def adopt_orphans() -> bool:
    """Makes this process the parent of its descendants' orphans, so that it can find and end them."""
    return bool(_libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def flush_streams() -> None:
    """Writes out what Python and C code hold back."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):  # None, closed, or a full pipe's end
            stream.flush()
    _libc().fflush(None)


def os_threads() -> int:
    """Threads of this process as the operating system counts them, Python's and others'."""
    return len(os.listdir("/proc/self/task"))


def children() -> list[int]:
    """Process ids of this process's children, adopted ones too (main thread's; servers have only that)."""
    pid = os.getpid()
    try:
        return [int(p) for p in Path(_CHILDREN.format(pid=pid)).read_text().split()]
    except FileNotFoundError:
        import psutil  # costs 20 ms, and hardly any kernel needs it

        return [child.pid for child in psutil.Process().children()]


def still_running(pids: Iterable[int], seconds: float) -> list[int]:
    """Those of these processes that have not ended within so many seconds, counted once for all of them.

    They must be children that nobody reaps meanwhile, or it is the caller's risk that a number is somebody
    else's by now; a number that is free counts as ended.
    """
    deadline = time.monotonic() + seconds
    return [pid for pid in pids if not _ends_until(pid, deadline)]


def _ends_until(pid: int, deadline: float) -> bool:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
    finally:
        os.close(pidfd)


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
