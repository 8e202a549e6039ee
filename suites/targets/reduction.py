"""``Reduction``: the arithmetic of a reduction, in Python: what ``python_gloo`` computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

_ARITHMETIC: dict[dist.ReduceOp.RedOpType, Callable[[Tensor, Tensor], Tensor]] = {
    dist.ReduceOp.SUM: torch.add,
    dist.ReduceOp.AVG: torch.add,
    dist.ReduceOp.PREMUL_SUM: torch.add,
    dist.ReduceOp.PRODUCT: torch.mul,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}


class Reduction:
    """A reduction of tensors of one dtype; ValueError where it is not defined for that."""

    def __init__(self, op: Any, tensors: Sequence[Tensor]) -> None:
        state = op.__getstate__()
        self._kind = next(kind for kind in _ARITHMETIC if op == kind)
        self._factor = state[1] if self._kind == dist.ReduceOp.PREMUL_SUM else None
        bits = (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)
        for tensor in tensors:
            if self._kind in bits and (tensor.is_floating_point() or tensor.is_complex()):
                raise ValueError(f"{self._kind} is for whole numbers, not for {tensor.dtype}")

    def __call__(self, held: Sequence[Tensor]) -> Tensor:
        """The reduction of all of them, in the order of ranks."""
        terms = held if self._factor is None else [tensor * self._factor for tensor in held]
        total = terms[0]
        for term in terms[1:]:
            total = _ARITHMETIC[self._kind](total, term)
        if self._kind != dist.ReduceOp.AVG:
            return total
        whole = not (total.is_floating_point() or total.is_complex())
        return torch.div(total, len(held), rounding_mode="trunc" if whole else None)
