"""How the values of two tensors of one shape and dtype differ, in words.

``torch.testing.assert_close`` says it too, and imports ``torch.distributed.tensor`` and sympy to do so:
most of a second in each rank that fails.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch


def described(x: torch.Tensor, y: torch.Tensor, rtol: float, atol: float, *, equal_nan: bool) -> str:
    """What to say of ``x`` and ``y``, two strided tensors of which at least one element differs.

    Both have one shape, dtype and device. An element differs where ``torch.isclose`` says so. Relative
    differences are to ``y``, the expected one. Names the counts, the first element that differs, and where
    the absolute and the relative difference are greatest.
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
    # A difference that is no number (nan against a number, inf against inf) is past every bound.
    place = int(torch.nan_to_num(distances, nan=math.inf, posinf=math.inf).flatten().argmax())
    index = _index(place, distances.shape)
    return f"Greatest {kind} difference: {distances[index].item()} at index {index} (up to {allowed} allowed)"


def _index(place: int, shape: torch.Size) -> tuple[Any, ...]:
    """The coordinates of an element by its place in row-major order."""
    return tuple(int(i) for i in np.unravel_index(place, tuple(shape)))
