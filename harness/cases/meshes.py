"""What torch keeps of the meshes of a test, and how to be rid of it when their process groups end.

DTensor's caches hold meshes, and a mesh equals any other of its shape: after a test, the next one's operators
would be given that test's mesh, and with it groups that are destroyed (or, in a process, connections that
nobody closes).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

# (module, attribute) of everything in torch that keeps a mesh for later, as a function that empties it or a
# cached function. All private.
CACHES = (
    ("torch.distributed.tensor.debug", "_clear_sharding_prop_cache"),
    ("torch.distributed.tensor._redistribute", "clear_redistribute_planner_cache"),
    ("torch.distributed.tensor._redistribute", "_gen_transform_infos"),
    ("torch.distributed.tensor._sharding_prop", "ShardingPropagator._propagate_tensor_meta_cached"),
    ("torch.distributed.tensor._collective_utils", "MeshTopoInfo.build_from_mesh"),
)


def forget_meshes() -> None:
    """Empties DTensor's caches and its random state, so that nothing refers to the meshes of the test."""
    random = sys.modules.get("torch.distributed.tensor._random")
    if random is not None:
        random._rng_tracker = None  # type: ignore[attr-defined]  # private; upstream's tests reset it too
    for module, path in CACHES:
        with contextlib.suppress(ImportError, AttributeError):  # a cache that this version of torch lacks
            _emptier(module, path)()
    if threading.current_thread() is threading.main_thread():
        gc.collect()  # the planner of redistributions is a cycle around its mesh


@functools.cache
def _emptier(module: str, path: str) -> Callable[[], object]:
    owner: Any = importlib.import_module(module)
    for name in path.split("."):
        owner = getattr(owner, name)
    empty: Callable[[], object] = getattr(owner, "cache_clear", owner)
    return empty


def groups_made() -> int:
    """How many groups all ranks together have made in this process so far."""
    return int(dist.distributed_c10d._world.group_count) if dist.is_initialized() else 0


def end_subgroups() -> None:
    """Destroys every group but the default one, when all ranks are here."""
    dist.barrier()
    world = dist.distributed_c10d._world
    for group in [group for group in world.pg_map if group is not dist.group.WORLD]:
        dist.destroy_process_group(group)
    forget_meshes()
