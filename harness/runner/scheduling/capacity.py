"""Finds out, without torch, what this machine has for tests beside processors: memory and accelerators."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.hosts.hosts import Host
from harness.requirements.probes import probe_system
from harness.runner.scheduling.schedule import Capacity
from harness.runner.scheduling.shared_capacity import HostCapacity, SharedCapacity
from harness.system.processors import tests_at_once
from harness.targets.device_set import DeviceSet

DEVICES = Path("/dev")


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

    ``jobs`` are the slots of each other; None: as many as keep its processors busy.
    """
    others = [host for host in hosts if not host.own]
    slots = next((host.slots for host in hosts if host.own), own.slots)
    mine = HostCapacity("", replace(own, groups=()), slots, there=True)
    theirs = (
        HostCapacity(
            host.name,
            Capacity(jobs or tests_at_once(host.processors), host.accelerators, host.memory_mb),
            host.slots,
        )
        for host in others
    )
    return SharedCapacity((mine, *theirs), spread, own.groups)


def capacity(
    jobs: int,
    environ: Mapping[str, str],
    groups: Mapping[str, int] | None = None,
    of_target: DeviceSet | None = None,
) -> Capacity:
    """The capacity that the scheduler shares out: ``jobs`` slots, and this machine's devices and memory.

    ``groups`` has the limits of groups of tests. ``of_target`` are the devices of the run's target, where it
    has counted them itself.
    """
    limits = tuple((groups or {}).items())
    devices = accelerators(environ) if of_target is None else of_target.at_once
    return Capacity(jobs, devices, probe_system().memory_mb, groups=limits)
