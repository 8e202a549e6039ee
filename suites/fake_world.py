"""``world``: a process that is one rank of a world of which nobody else is there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch.distributed as dist
from torch.distributed.tensor import _redistribute
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from torch.testing._internal.distributed.fake_pg import FakeStore

WORLD, RANK = 12, 7


@contextlib.contextmanager
def world(rank: int = RANK) -> Iterator[None]:
    """This process is that rank of the world; what is moved comes back as it is."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=WORLD)
    try:
        yield
    finally:  # what is kept by mesh has groups that the next world lacks
        _clear_sharding_prop_cache()
        _redistribute._gen_transform_infos.cache_clear()
        _redistribute.clear_redistribute_planner_cache()
        dist.destroy_process_group()
