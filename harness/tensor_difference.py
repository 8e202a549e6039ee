"""Describes in words how the values of two tensors of one shape and dtype differ.

``torch.testing.assert_close`` describes it too, but imports ``torch.distributed.tensor`` and sympy for that,
which takes most of a second in each rank that fails.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch


def described(x: torch.Tensor, y: torch.Tensor, rtol: float, atol: float, *, equal_nan: bool) -> str:
    """The message about ``x`` and ``y``, two strided tensors of which at least one element differs.

    Both have the same shape, dtype and device. Elements differ where ``torch.isclose`` says so. Relative
    differences are relative to ``y``, the expected tensor. The message has the number of different elements,
    the first of them, and the places of the greatest absolute and relative difference.
    """
    x, y = x.detach().cpu(), y.detach().cpu()
    different = ~torch.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
    first = _index(int(different.flatten().to(torch.uint8).argmax()), x.shape)
    count, whole = int(different.sum()), x.numel()
    absolute = (_wide(x) - _wide(y)).abs()
    relative = absolute / _wide(y).abs()
    return "\n".join(
        (
            f"Tensor-likes are not {'equal' if rtol == atol == 0 else 'close'}!",
            "",
            f"Mismatched elements: {count} / {whole} ({count / whole:.1%})",
            f"First mismatch: {x[first].item()!r} where {y[first].item()!r} is expected, at index {first}",
            _greatest("absolute", absolute, different, atol),
            _greatest("relative", relative, different, rtol),
        )
    )


def _wide(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.complex128 if values.is_complex() else torch.float64)


def _greatest(kind: str, distances: torch.Tensor, different: torch.Tensor, allowed: float) -> str:
    distances = torch.where(different, distances, -math.inf)
    # A difference that is not a number (nan - 1, inf - inf) exceeds every tolerance.
    place = int(torch.nan_to_num(distances, nan=math.inf, posinf=math.inf).flatten().argmax())
    index = _index(place, distances.shape)
    return f"Greatest {kind} difference: {distances[index].item()} at index {index} (up to {allowed} allowed)"


def _index(place: int, shape: torch.Size) -> tuple[Any, ...]:
    """The coordinates of an element by its place in row-major order."""
    return tuple(int(i) for i in np.unravel_index(place, tuple(shape)))
