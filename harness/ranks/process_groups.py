"""Counts, names and destroys the torch process groups that a test leaves in its rank."""

from __future__ import annotations

import sys
from typing import Any


def _distributed() -> Any | None:
    dist = sys.modules.get("torch.distributed")
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


def live_groups() -> tuple[Any, ...]:
    """The process groups that are registered, in the order in which they were made, as on every rank."""
    dist = _distributed()
    return tuple(dist.distributed_c10d._world.pg_map) if dist is not None else ()


def group_names() -> frozenset[str]:
    """The names of the process groups that are registered in this process."""
    dist = _distributed()
    return frozenset(dist.distributed_c10d._world.pg_names.values()) if dist is not None else frozenset()


def groups_begun() -> int:
    """How many process groups this process has begun to make since it last had none; failed ones count too.

    torch names groups by counting them, so a rank whose count differs from its peers' waits forever for a
    group name that they do not use (pytorch/pytorch#46561, pytorch/pytorch#46563, pytorch/pytorch#55967).
    """
    dist = sys.modules.get("torch.distributed")
    return int(dist.distributed_c10d._world.group_count) if dist is not None and dist.is_available() else 0


def reset_group_count() -> None:
    """Resets torch's count of process groups, in a process that has none left; see ``groups_begun``."""
    if groups_begun() and _distributed() is None:
        sys.modules["torch.distributed"].distributed_c10d._world.group_count = 0


def destroy_groups_unless(keep: bool) -> bool:
    """Destroys all groups of a pooled rank whose next test makes new ones; returns whether there were any.

    Called when every rank has reported, so no peer still needs them.
    """
    dist = None if keep else _distributed()
    if dist is None:
        return False
    dist.destroy_process_group()
    return True


def destroy_on_exit() -> None:
    """Destroys the groups that a passed test left, unless all of them are gloo or fake.

    Those hold nothing but sockets and memory, which the end of the process frees; destroying a gloo group
    takes 10 to 20 ms.
    """
    dist = _distributed()
    if dist is None:
        return
    backends = {part.partition(":")[2] or part for part in dist.get_backend_config().split(",")}
    if not backends <= {"gloo", "fake", "undefined"}:
        dist.destroy_process_group()
