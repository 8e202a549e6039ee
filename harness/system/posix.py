"""Linux calls for processes that Python's standard library lacks: prctl, children, pidfd waits, /proc."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from harness.errors import LaunchError

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# Exists where the kernel was built with CONFIG_PROC_CHILDREN.
_CHILDREN = "/proc/{pid}/task/{pid}/children"


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def die_with_parent(signum: int) -> bool:
    """Makes the kernel send this process a signal when its parent's *thread* ends; False where it refuses."""
    return bool(_libc().prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0) == 0)


def adopt_orphans() -> bool:
    """Makes this process the parent of its descendants' orphans, so that it can find and end them."""
    return bool(_libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def flush_streams() -> None:
    """Flushes Python's standard streams and the streams of C code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # None, closed, a full pipe's end, or what a test has put there
            stream.flush()
    _libc().fflush(None)


def open_standard_descriptors() -> None:
    """Opens /dev/null as standard input, output or error where this process was started without it.

    The next descriptors that it opens would get these numbers otherwise, and would be lost as soon as a child
    gets streams of its own.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            os.set_inheritable(fd, True)


def input_from_null() -> None:
    """Makes /dev/null this process's standard input."""
    null = os.open(os.devnull, os.O_RDONLY)
    if null == 0:  # standard input was closed
        os.set_inheritable(0, True)
        return
    os.dup2(null, 0)
    os.close(null)


def os_threads() -> int:
    """The number of threads of this process by the operating system's count, native ones included.

    LaunchError where /proc is not mounted.
    """
    try:
        return len(os.listdir("/proc/self/task"))
    except FileNotFoundError:
        raise LaunchError(
            "/proc is not mounted, and processes cannot be watched without it: mount -t proc proc /proc"
        ) from None


def children() -> list[int]:
    """Process ids of the main thread's children, adopted ones included; a server has no other thread."""
    pid = os.getpid()
    try:
        return [int(p) for p in Path(_CHILDREN.format(pid=pid)).read_text().split()]
    except FileNotFoundError:
        import psutil  # costs 20 ms, and hardly any kernel needs it

        return [child.pid for child in psutil.Process().children()]


def still_running(pids: Iterable[int], seconds: float) -> list[int]:
    """Those of the processes that still run after ``seconds``, a limit for all of them together.

    They should be children that nothing else reaps meanwhile; otherwise an id may belong to another process
    by now. An id without a process counts as ended.
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
    """Whether the process has ended and only waits to be reaped."""
    return _state(pid) == "Z"


def is_working(pid: int) -> bool:
    """Whether the process runs, or would if it had a processor or its data from a disk."""
    return _state(pid) in ("R", "D")


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped the process (SIGSTOP, Ctrl-Z); not so where a debugger holds it."""
    return _state(pid) == "T"


def could_run(pid: int | str, *, without: int | None = None, serving: tuple[str, ...] = ()) -> bool:
    """Whether a thread of the process runs, could run, or is stopped, or an alarm can wake the process.

    False for a process of which every thread sleeps, and for one that is gone. ``pid`` may be "self", then
    ``without`` is the calling thread's native id. Threads whose names begin with one of ``serving`` do
    not count.
    """
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            if task == str(without):
                continue
            stat = Path(f"/proc/{pid}/task/{task}/stat").read_text()
            name, _, rest = stat.partition("(")[2].rpartition(")")
            if name.startswith(serving):
                continue
            if rest.split()[0] not in ("S", "I", "Z", "X"):
                return True
        return _catches(pid, signal.SIGALRM)
    except (FileNotFoundError, ProcessLookupError):
        return os.path.exists(f"/proc/{pid}")  # a thread ended meanwhile: so the process has just moved


def _catches(pid: int | str, signum: int) -> bool:
    """Whether the process has a handler for a signal."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    return False


def has_children(pid: int) -> bool:
    """Whether a process's main thread has started processes that still exist."""
    try:
        return bool(Path(_CHILDREN.format(pid=pid)).read_text().strip())
    except (FileNotFoundError, ProcessLookupError):
        return False


def _state(pid: int) -> str:
    """The state of a process's main thread as a letter (proc(5)); "" for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def command_line(pid: int) -> str:
    """The command line of a process, for messages."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return "(gone)"
    return raw.replace(b"\0", b" ").decode(errors="replace").strip() or "(no command line)"
