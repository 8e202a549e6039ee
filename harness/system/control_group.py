"""The control group of this process: its limits, and whether the kernel has killed in it for lack of memory.

Both versions of Linux's control groups are read. In a container ``/proc/self/cgroup`` may name a group by a
path that only the host has; the group is then what is mounted at the top.
"""

from __future__ import annotations

import contextlib
import functools
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
# Counts what the kernel has killed on the whole machine: for a process in no group that counts.
MACHINE = Path("/proc/vmstat")

_MEMORY_LIMITS = ("memory.max", "memory.limit_in_bytes")
_MEMORY_KILLS = ("memory.events", "memory.oom_control")
# What version 1 says where there is no limit: the largest number of pages, in bytes.
_NO_LIMIT = 1 << 60


def directories(controller: str) -> Iterator[Path]:
    """The directories of this process's group and of those above it, all of whose limits hold."""
    for top, path in _memberships(controller):
        own = top / path.lstrip("/")
        group = own if own.is_dir() else top
        while group.is_dir():
            yield group
            if group == top:
                break
            group = group.parent


def _memberships(controller: str) -> Iterator[tuple[Path, str]]:
    """Where the groups of the controller are mounted, and the path of this process's group below."""
    with contextlib.suppress(OSError, ValueError):
        for line in MEMBERSHIP.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                yield MOUNT / controller, path
            elif not controllers:
                yield MOUNT, path


def memory_limit() -> int | None:
    """The bytes of memory that this process and the others of its group may have; None for no limit."""
    found = [
        limit
        for group in directories("memory")
        for name in _MEMORY_LIMITS
        if (limit := _number(group / name)) is not None and limit < _NO_LIMIT
    ]
    return min(found, default=None)


def processes_left() -> int | None:
    """How many more processes and threads there may be in the group; None for no limit."""
    left = []
    for group in directories("pids"):
        most, now = _number(group / "pids.max"), _number(group / "pids.current")
        if most is not None and now is not None:
            left.append(max(0, most - now))
    return min(left, default=None)


@dataclass(frozen=True, slots=True)
class MemoryKills:
    """How many processes of the group the kernel had killed for lack of memory, at some moment."""

    count: int | None

    @classmethod
    def until_now(cls) -> MemoryKills:
        """The count of this moment: of the group, or of the machine where the group has none."""
        return cls(_kills(_counter(MOUNT, MEMBERSHIP)))

    def explain(self, code: int | None) -> str:
        """Why a process may have ended with an exit code: what the kernel has killed since; "" for nothing.

        Which processes it killed is not known, so this is said of each that was killed in the meantime.
        """
        if code != -signal.SIGKILL or self.count is None:
            return ""
        more = (MemoryKills.until_now().count or 0) - self.count
        if more <= 0:
            return ""
        limit = memory_limit()
        which = "" if limit is None else f"; the limit of its control group is {limit >> 20} MiB"
        return f"meanwhile the kernel killed {more} process{'es' * (more > 1)} for lack of memory{which}"


@functools.cache
def _counter(mount: Path, membership: Path) -> Path:
    """The file that has the count, looked for once in a process: each launch of ranks reads it."""
    del mount, membership  # by which ``directories`` looks
    files = (group / name for group in directories("memory") for name in _MEMORY_KILLS)
    return next((file for file in files if _kills(file) is not None), MACHINE)


def _kills(file: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None


def _number(file: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):  # "max" is no number: there is no limit
        return int(file.read_text(encoding="ascii"))
    return None
