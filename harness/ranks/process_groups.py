"""Process groups that a test leaves in its rank."""

from __future__ import annotations

import sys
from typing import Any


def _distributed() -> Any | None:
    dist = sys.modules.get("torch.distributed")
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


def names() -> frozenset[str]:
    """The names of the groups that are registered in this process."""
    dist = _distributed()
    return frozenset(dist.distributed_c10d._world.pg_names.values()) if dist is not None else frozenset()


def begun() -> int:
    """How many groups this process has begun to make since it last had none; those that were not made count.

    torch names groups by counting them, so a rank that counts another number than its peers waits for them
    for ever under a name that they do not use.
    """
    dist = sys.modules.get("torch.distributed")
    return int(dist.distributed_c10d._world.group_count) if dist is not None and dist.is_available() else 0


def forget_given_up() -> None:
    """Counts groups from the start again, in a process without any that is to go on; see ``begun``."""
    if begun() and _distributed() is None:
        sys.modules["torch.distributed"].distributed_c10d._world.group_count = 0


def destroy_unless(keep: bool) -> bool:
    """Destroys all groups, for a pooled rank whose next test makes its own; True where there were any.

    Called when every rank has reported, so no peer still needs them.
    """
    dist = None if keep else _distributed()
    if dist is None:
        return False
    dist.destroy_process_group()
    return True


def destroy_on_exit() -> None:
    """Destroys the groups that a passed test left, unless ending the process does the same to them: gloo's
    and the fake one's hold nothing but sockets and memory."""
    dist = _distributed()
    if dist is None:
        return
    backends = {part.partition(":")[2] or part for part in dist.get_backend_config().split(",")}
    if not backends <= {"gloo", "fake", "undefined"}:
        dist.destroy_process_group()
