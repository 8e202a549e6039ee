"""Finds out, without torch, what this machine has for tests beside processors: memory and accelerators."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.hosts.hosts import Host
from harness.runner.scheduling import Capacity
from harness.runner.shared_capacity import HostCapacity, SharedCapacity

MEMINFO = Path("/proc/meminfo")
DEVICES = Path("/dev")


def memory_mb(meminfo: Path = MEMINFO) -> int | None:
    """The machine's memory in megabytes, None where ``meminfo`` does not tell it."""
    with contextlib.suppress(OSError):
        found = re.search(r"MemTotal:\s*(\d+) kB", meminfo.read_text())
        return int(found[1]) // 1024 if found else None
    return None


def accelerators(environ: Mapping[str, str], devices: Path = DEVICES) -> int:
    """The number of accelerators that tests may use: device files, less those that ``environ`` hides."""
    try:
        found = sum(re.fullmatch(r"nvidia\d+|accel\d+", name) is not None for name in os.listdir(devices))
    except OSError:
        return 0
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    return min(found, len([part for part in visible.split(",") if part.strip() not in ("", "-1")]))


def shared(
    hosts: Sequence[Host],
    jobs: int | None,
    own: Capacity,
    *,
    spread: bool,
) -> SharedCapacity:
    """What the hosts of a run offer, ``own`` what the controller's does.

    ``jobs`` are the slots of each other; None: one a processor.
    """
    others = [host for host in hosts if not host.own]
    slots = next((host.slots for host in hosts if host.own), own.slots)
    mine = HostCapacity("", replace(own, groups=()), slots, there=True)
    theirs = (
        HostCapacity(
            host.name, Capacity(jobs or host.processors, host.accelerators, host.memory_mb), host.slots
        )
        for host in others
    )
    return SharedCapacity((mine, *theirs), spread, own.groups)


def capacity(
    jobs: int,
    environ: Mapping[str, str],
    groups: Mapping[str, int] | None = None,
    of_target: int | None = None,
) -> Capacity:
    """The capacity that the scheduler shares out: ``jobs`` slots, and this machine's devices and memory.

    ``groups`` has the limits of groups of tests. ``of_target`` is the number of devices of the run's target,
    where it has counted them itself.
    """
    limits = tuple((groups or {}).items())
    devices = accelerators(environ) if of_target is None else of_target
    return Capacity(jobs, devices, memory_mb(), groups=limits)
