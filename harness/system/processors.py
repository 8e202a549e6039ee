"""Decides how many processors this process may use, how many tests keep them busy, and a process's share."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path

CGROUP_CPU = Path("/sys/fs/cgroup/cpu.max")


def available(cpu_max: Path | None = None) -> int:
    """The processors of this process's affinity, or the quota of its control group where that is smaller.

    ``cpu_max`` is the file with the quota, by default that of this process's group, which is read once.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _own_quota() if cpu_max is None else _quota(cpu_max)
    return count if quota is None else min(count, quota)


def tests_at_once(count: int) -> int:
    """How many tests keep ``count`` processors busy: half as many more, as ranks wait for one another."""
    return count + count // 2


def share(processes: int) -> int:
    """The processors for each of ``processes`` that run at the same time; at least one."""
    return max(1, available() // processes)


@functools.cache
def _own_quota() -> int | None:
    return _quota(CGROUP_CPU)


def _quota(cpu_max: Path) -> int | None:
    """Whole processors, at least one; None without a limit or where the file does not say."""
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = cpu_max.read_text().split()
        if quota != "max":
            return max(1, int(quota) // int(period))
    return None
