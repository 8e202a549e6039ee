"""Empties torch's caches of a test's DeviceMeshes, and destroys the process groups that a test added.

DTensor's caches hold meshes, and a mesh equals any other of its shape: the next test's operators would get
the old mesh, and with it groups that are destroyed, or connections that stay open (NVIDIA/Megatron-LM#7029
and huggingface/transformers#48383 describe the same).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import operator
import sys
import threading
from collections.abc import Callable, Iterable, Iterator

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from harness.ranks import process_groups

# (module, attribute) of each cache in torch that holds meshes: a function that empties it, or a cached
# function. All are private.
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
    for empty in _EMPTIERS:
        empty()
    if threading.current_thread() is threading.main_thread():
        gc.collect()  # the planner of redistributions forms a reference cycle with its mesh


def emptiers(caches: Iterable[tuple[str, str]]) -> Iterator[Callable[[], object]]:
    """Yields the function that empties each cache, without those that this version of torch lacks."""
    for module, path in caches:
        with contextlib.suppress(ImportError, AttributeError):
            owner = operator.attrgetter(path)(importlib.import_module(module))
            yield getattr(owner, "cache_clear", owner)


# Found here, because the modules would otherwise be imported in each rank, during its first test.
_EMPTIERS = tuple(emptiers(CACHES))


class GroupsBefore:
    """The process groups, and the meshes on a case's classes, that exist before a test.

    ``end`` removes those that the test added, so that ranks can be kept with their default group and with
    what ``_init_pg`` made beside it.
    """

    def __init__(self, case: object) -> None:
        self._case = case
        self._groups = process_groups.live_groups()
        self._begun = process_groups.groups_begun()
        self._class_meshes = _class_meshes(case)

    def end(self, *, together: bool) -> None:
        """Destroys what the test made, after a barrier where all ranks call this (``together``)."""
        if not dist.is_initialized():  # the test destroyed all groups itself
            forget_meshes()
            return
        if together and process_groups.groups_begun() != self._begun:
            dist.barrier()
        made = [group for group in process_groups.live_groups() if group not in self._groups]
        if made:
            self._forget_attributes()  # they would keep their groups' connections open, which is a leak
            for group in made:
                dist.destroy_process_group(group)
            forget_meshes()

    def _forget_attributes(self) -> None:
        for name in [name for name, value in vars(self._case).items() if isinstance(value, DeviceMesh)]:
            delattr(self._case, name)
        for owner, name in _class_meshes(self._case) - self._class_meshes:
            delattr(owner, name)


def _class_meshes(case: object) -> frozenset[tuple[type, str]]:
    return frozenset(
        (owner, name)
        for owner in type(case).__mro__
        for name, value in vars(owner).items()
        if isinstance(value, DeviceMesh)
    )
