"""Decides how many of the target's accelerators a case takes, one a rank, and whether there are enough."""

from __future__ import annotations

from typing import Any

from harness.environment import environment
from harness.requirements.machine import accelerators_elsewhere
from harness.targets.current import current, is_plugged


def taken(case: Any, ranks: int) -> int:
    """How many accelerators the ranks of a case take, by its ``device_type``; 0 where it tests another."""
    if not is_plugged(environment()):
        return 0
    kind, tested = getattr(case, "device_type", None), current().device_type
    if tested == "cpu" or (kind() if callable(kind) else kind) != tested:
        return 0
    return ranks


def too_few(case: Any) -> str | None:
    """Why the ranks of a case cannot have an accelerator each; None where they can, or need none."""
    wanted = taken(case, 1) and int(case.world_size)
    if not wanted:
        return None
    found, elsewhere = current().device_count(), accelerators_elsewhere(environment())
    if elsewhere is None or wanted <= found + elsewhere:
        return None
    more = f" here and {elsewhere} on other hosts" if elsewhere else ""
    return f"needs {wanted} accelerators, one a rank: the target {current()} has {found}{more}"
