"""What each rank holds of a tensor on a mesh, in plain torch; scripts of programs contain these functions.

Written from the documented meaning of placements, without DTensor's own code. ``Shard(d)`` cuts as
``torch.chunk`` does; of two mesh dimensions that shard one tensor dimension the later cuts the pieces of the
earlier. Ranks along a ``Partial`` dimension hold parts that all differ, and that reduce to the whole exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def cut(whole: torch.Tensor, dim: int, parts: int, place: int) -> torch.Tensor:
    """The piece at ``place`` of a tensor that is cut into ``parts`` along ``dim``; the last may be empty."""
    size = whole.shape[dim]
    most = -(-size // parts)
    start = min(place * most, size)
    return whole.narrow(dim, start, min(most, size - start))


def part(whole: torch.Tensor, placement: Any, parts: int, place: int) -> torch.Tensor:
    """What the rank at ``place`` of a mesh dimension of ``parts`` ranks holds of a tensor."""
    if placement.is_shard():
        return cut(whole, placement.dim, parts, place)
    if placement.is_replicate():
        return whole
    if placement.reduce_op == "sum":
        return torch.full_like(whole, place) if place else whole - sum(range(parts))
    if placement.reduce_op == "avg":
        return whole + place - (parts - 1) / 2
    return whole - place if placement.reduce_op == "max" else whole + place


def held(whole: torch.Tensor, rank: int, shape: Sequence[int], placements: Sequence[Any]) -> torch.Tensor:
    """What a rank of a mesh of ``shape``, which numbers its ranks row by row, holds of a tensor."""
    places = [int(place) for place in torch.unravel_index(torch.tensor(rank), tuple(shape))]
    for placement, parts, place in zip(placements, shape, places, strict=True):
        whole = part(whole, placement, parts, place)
    return whole.clone()


def numbers(shape: Sequence[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """A tensor of different numbers in a mixed order: multiples of 1/32 around 0; integers are 0 or 1."""
    count = torch.Size(shape).numel()
    order = (torch.arange(count) * 61 + seed * 29) % 211
    values = order % 2 if not dtype.is_floating_point else (order - 105) / 32
    return values.to(dtype).reshape(tuple(shape))
