"""The processes below one, and which of them hold the call logs of ranks, by /proc."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.communication.call_log import FILE_NAME
from harness.errors import UsageError

_LINK = re.compile(rf"/memfd:{FILE_NAME}\.(?P<of>processes-\d+)\.(?P<rank>\d+) \(deleted\)")


@dataclass(frozen=True, slots=True)
class HeldLog:
    """A call log that a process has open, as ``path``: that of a rank in a set of ranks.

    ``of`` tells the sets of one process of tests apart. ``file`` is the same in all that hold the log.
    """

    of: str
    rank: int
    file: int
    path: str


@dataclass(frozen=True, slots=True)
class Process:
    """A process: how many parents lie between it and the one that was asked for, and the logs it holds."""

    pid: int
    depth: int
    logs: tuple[HeldLog, ...]


def below(pid: int) -> list[Process]:
    """A process and all below it, parents before their children. UsageError where there is no process."""
    import psutil  # by few runs only

    try:
        first = psutil.Process(pid)
        found = [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        raise UsageError(f"there is no process {pid}") from None
    depths = {pid: 0}
    for each in found[1:]:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            depths[each.pid] = depths.get(each.ppid(), 0) + 1
    ordered = sorted(depths, key=lambda of: (depths[of], of))
    return [Process(each, depths[each], tuple(held_logs(each))) for each in ordered]


def held_logs(pid: int) -> Iterator[HeldLog]:
    """The call logs that a process has open, each once; none of one that is gone or somebody else's."""
    seen = set()
    for path in _descriptors(pid):
        with contextlib.suppress(OSError):  # closed meanwhile
            match = _LINK.fullmatch(os.readlink(path))
            file = os.stat(path).st_ino if match else 0
            if match and file not in seen:
                seen.add(file)
                yield HeldLog(match["of"], int(match["rank"]), file, path)


def _descriptors(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []
