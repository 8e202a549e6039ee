"""How a DTensor is compared with the plain tensor that it stands for; scripts contain these functions.

A difference is a text whose first line says what kind it is; the empty text is none.
"""

from __future__ import annotations

from typing import Any

import torch

from harness.fuzzing.dtensors.placing import held


def misfit(name: str, got: Any, right: Any) -> str:
    """What differs between a DTensor and a plain tensor, each of which may be None, beside their numbers."""
    if got is None or right is None:
        return "" if got is right else f"{name} is {type(got).__name__}, but {type(right).__name__} in plain"
    if not hasattr(got, "placements"):
        return f"{name} is no DTensor, but a {type(got).__name__}"
    for what in ("shape", "dtype", "requires_grad"):
        one, other = getattr(got, what), getattr(right, what)
        if one != other:
            return f"{what} of {name} differs: {one}, but {other} in plain"
    return ""


def difference(name: str, whole: torch.Tensor, part: torch.Tensor, right: Any, rank: int, got: Any) -> str:
    """What differs between the numbers of ``got`` and ``right`` on a rank.

    ``whole`` is what ``full_tensor`` gives this rank, ``part`` what it holds.
    """
    if whole.shape != right.shape:
        return f"shape of {name}.full_tensor() differs: {tuple(whole.shape)} for {tuple(right.shape)}"
    if not close(whole, right):
        return f"value of {name} differs, {got.placements}\nrank {rank} has\n{whole}\nfor\n{right}"
    if all(type(each).__name__ in ("Shard", "Replicate") for each in got.placements):
        shard = held(right, rank, got.device_mesh.shape, got.placements)
        if part.shape != shard.shape or not close(part, shard):
            return f"shard of {name} differs, {got.placements}\nrank {rank} has\n{part}\nfor\n{shard}"
    return ""


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same numbers, but for rounding."""
    if not one.dtype.is_floating_point:
        return bool(torch.equal(one, other))
    tolerance = 1e-4 if one.dtype == torch.float32 else 1e-5  # what is float64 may come of float32
    return bool(torch.allclose(one, other, rtol=tolerance, atol=tolerance))


def loss_of(values: list[Any]) -> Any:
    """The sum of the squares of all values with a gradient; None where there is none."""
    terms = [each.square().sum() for each in values if each.requires_grad]
    return sum(terms[1:], terms[0]) if terms else None
