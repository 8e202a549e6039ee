"""A model of how a tensor lies on a mesh, in numpy: what each rank holds, and what all of that stands for.

Written from the documented meaning of placements, and used as the reference for DTensor, which has no part in
it: ``Shard(d)`` cuts dimension d as ``torch.chunk`` does, so that later ranks may have less or nothing; two
mesh dimensions that shard the same tensor dimension cut one after the other; ``Replicate()`` leaves each rank
what it has; ranks along a ``Partial(op)`` dimension hold what has to be reduced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from torch.distributed.tensor import Partial, Placement, Shard

Array = np.ndarray

#: How the parts of a partial tensor become the whole.
REDUCTIONS: Mapping[str, Any] = {
    "sum": sum,
    "avg": lambda parts: sum(parts) / len(parts),
    "max": lambda parts: reduce(np.maximum, parts),
    "min": lambda parts: reduce(np.minimum, parts),
    "product": lambda parts: reduce(np.multiply, parts),
}


def bounds(size: int, parts: int, place: int) -> tuple[int, int]:
    """From where to where the shard at ``place`` goes, when ``size`` is cut into so many parts."""
    most = -(-size // parts)
    return min(place * most, size), min((place + 1) * most, size)


def coordinate(rank: int, mesh_shape: Sequence[int]) -> tuple[int, ...]:
    """Where a rank is on a mesh that numbers its ranks row by row."""
    return tuple(int(place) for place in np.unravel_index(rank, mesh_shape))


def cut(whole: Array, rank: int, mesh_shape: Sequence[int], placements: Sequence[Placement]) -> Array:
    """A rank's part of an array; all of it along dimensions that do not shard."""
    for parts, place, placement in zip(mesh_shape, coordinate(rank, mesh_shape), placements, strict=True):
        if isinstance(placement, Shard):
            start, stop = bounds(whole.shape[placement.dim], parts, place)
            whole = np.take(whole, range(start, stop), axis=placement.dim)
    return whole


class Pieces:
    """An array of ``shape`` that lies on a mesh: ``whole``, and what each rank holds of it.

    Along partial dimensions ranks hold arrays that are all different, of small whole numbers: whatever is
    done with them in float32 is exact.
    """

    def __init__(
        self, mesh_shape: Sequence[int], shape: Sequence[int], placements: Sequence[Placement]
    ) -> None:
        self.mesh_shape, self.placements = tuple(mesh_shape), tuple(placements)
        self._partial = [dim for dim, each in enumerate(placements) if isinstance(each, Partial)]
        count = int(np.prod([mesh_shape[dim] for dim in self._partial], initial=1))
        self._parts = [small_numbers(index, shape) for index in range(count)]
        reductions = {placements[dim].reduce_op for dim in self._partial}
        assert len(reductions) <= 1, "reductions of different kinds have no order among them"
        self.whole: Array = REDUCTIONS[reductions.pop() if reductions else "sum"](self._parts)

    def of(self, rank: int) -> Array:
        """What a rank holds."""
        places = coordinate(rank, self.mesh_shape)
        index = 0
        for dim in self._partial:
            index = index * self.mesh_shape[dim] + places[dim]
        return cut(self._parts[index], rank, self.mesh_shape, self.placements)


def small_numbers(index: int, shape: Sequence[int]) -> Array:
    """Whole numbers from 1 to 16 in an order that no two indices below 16 share, of float32."""
    count = int(np.prod(shape, initial=1))
    return (
        ((np.arange(count) * 7 + index * 5 + np.arange(count) // 16 * 3) % 16 + 1)
        .astype(np.float32)
        .reshape(shape)
    )
