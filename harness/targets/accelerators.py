"""Decides how many places on the target's accelerators a case takes, one a rank, and if there are enough."""

from __future__ import annotations

from typing import Any

from harness.environment import environment
from harness.requirements.machine import accelerators_elsewhere
from harness.settings import target_given
from harness.targets.current import current


def taken(case: Any, ranks: int) -> int:
    """How many places on accelerators a case takes, by its ``device_type``; 0 where it tests another."""
    if not target_given(environment()):
        return 0
    kind, tested = getattr(case, "device_type", None), current().device_type
    if tested == "cpu" or (kind() if callable(kind) else kind) != tested:
        return 0
    return ranks


def too_few(case: Any) -> str | None:
    """Why the ranks of a case have no room on the accelerators; None where they have, or need none."""
    wanted = taken(case, 1) and int(case.world_size)
    if not wanted:
        return None
    found, elsewhere = current().most_ranks(), accelerators_elsewhere(environment())
    if elsewhere is None or wanted <= found + elsewhere:
        return None
    more = f" here and {elsewhere} on other hosts" if elsewhere else ""
    shared = current().ranks_per_device
    needed = "accelerators, one a rank" if shared == 1 else f"places for ranks, {shared} on each device"
    return f"needs {wanted} {needed}: the target {current()} has {found}{more}"
