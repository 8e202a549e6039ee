"""One operation of ``torch.distributed`` on two ranks, compared with what it has to do, in plain Python."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

# What each of two ranks holds, as whole numbers: an even number of elements, so that each has a part for
# each, and no sum, product or minimum of any part is that of another.
HELD = ((1, 6, 3, 5), (2, 3, 7, 4))
# By it PREMUL_SUM multiplies; exact in every dtype.
FACTOR = 2.0
# What the arithmetic of a dtype may lose is far below this, and a missing term far above.
RELATIVE = 2e-2

_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "sum": operator.add,
    "avg": lambda a, b: (a + b) / 2,
    "product": operator.mul,
    "min": min,
    "max": max,
    "band": operator.and_,
    "bor": operator.or_,
    "bxor": operator.xor,
    "premul_sum": lambda a, b: FACTOR * (a + b),
}


def numbers(dtype: str, rank: int) -> list[Any]:
    """What a rank holds: ``HELD``; as complex numbers with another imaginary part, as bool by its bits."""
    if dtype == "bool":
        return [[True, True, False, False], [True, False, True, False]][rank]
    if dtype.startswith("complex"):
        return [complex(number, number + 1) for number in HELD[rank]]
    return list(HELD[rank])


def reduced(dtype: str, reduction: str) -> list[Any]:
    """What the reduction of both ranks' numbers is; the average of whole numbers loses its fraction."""
    pairs = zip(numbers(dtype, 0), numbers(dtype, 1), strict=True)
    found = [_ARITHMETIC[reduction](*pair) for pair in pairs]
    if dtype == "bool":
        return [bool(each) for each in found]
    whole = not dtype.startswith(("float", "bfloat", "complex"))
    return [int(each) for each in found] if whole else found


class Attempt:
    """An operation on this rank's device; ``run`` raises AssertionError where its result is wrong."""

    def __init__(self, rank: int, device: torch.device, dtype: str, reduction: str = "") -> None:
        self._rank, self._device, self._name = rank, device, dtype
        self._dtype = getattr(torch, dtype)
        self._mine = self._tensor(numbers(dtype, rank))
        self._op = _reduce_op(reduction) if reduction else None
        self._reduced = self._tensor(reduced(dtype, reduction)) if reduction else self._mine

    def run(self, operation: str) -> None:
        """Does it and compares; what the backend raises goes on."""
        for actual, expected in _OPERATIONS[operation](self):
            self._compare(actual, expected)

    def _tensor(self, values: Sequence[Any]) -> torch.Tensor:
        return torch.tensor(values).to(self._dtype).to(self._device)

    def _of(self, rank: int) -> torch.Tensor:
        return self._tensor(numbers(self._name, rank))

    def _blank(self, like: torch.Tensor | None = None) -> torch.Tensor:
        return torch.zeros_like(self._mine if like is None else like)

    def _compare(self, actual: torch.Tensor, expected: torch.Tensor) -> None:
        wide = torch.complex128 if expected.is_complex() else torch.float64
        got, right = (each.detach().cpu().to(wide) for each in (actual, expected))
        if got.shape != right.shape or not torch.allclose(got, right, rtol=RELATIVE, atol=0):
            raise AssertionError(f"rank {self._rank} got {got.tolist()}, and {right.tolist()} is right")

    # What moves. Each returns pairs of what came and what is right.

    def _broadcast(self) -> Pairs:
        tensor = self._mine.clone()
        dist.broadcast(tensor, 1)
        return [(tensor, self._of(1))]

    def _scatter(self) -> Pairs:
        parts = list(self._of(1).chunk(2))
        output = self._blank(parts[0])
        dist.scatter(output, [part.clone() for part in parts] if self._rank == 1 else None, 1)
        return [(output, parts[self._rank])]

    def _gather(self) -> Pairs:
        outputs = [self._blank(), self._blank()]
        dist.gather(self._mine, outputs if self._rank == 0 else None, 0)
        return [(outputs[rank], self._of(rank)) for rank in (0, 1)] if self._rank == 0 else []

    def _all_gather(self) -> Pairs:
        outputs = [self._blank(), self._blank()]
        dist.all_gather(outputs, self._mine)
        return [(outputs[rank], self._of(rank)) for rank in (0, 1)]

    def _all_gather_into_tensor(self) -> Pairs:
        whole = torch.cat([self._of(0), self._of(1)])
        output = self._blank(whole)
        dist.all_gather_into_tensor(output, self._mine)
        return [(output, whole)]

    def _all_gather_coalesced(self) -> Pairs:
        outputs = [[self._blank()], [self._blank()]]
        dist.all_gather_coalesced(outputs, [self._mine])
        return [(outputs[rank][0], self._of(rank)) for rank in (0, 1)]

    def _all_to_all(self) -> Pairs:
        parts = [part.clone() for part in self._mine.chunk(2)]
        outputs = [self._blank(parts[0]), self._blank(parts[0])]
        dist.all_to_all(outputs, parts)
        return [(outputs[rank], self._of(rank).chunk(2)[self._rank]) for rank in (0, 1)]

    def _all_to_all_single(self) -> Pairs:
        output = self._blank()
        dist.all_to_all_single(output, self._mine)
        return [(output, torch.cat([self._of(rank).chunk(2)[self._rank] for rank in (0, 1)]))]

    def _send(self) -> Pairs:
        if self._rank == 0:
            dist.send(self._mine, 1)
            return []
        output = self._blank()
        dist.recv(output, 0)
        return [(output, self._of(0))]

    # What reduces.

    def _all_reduce(self) -> Pairs:
        tensor = self._mine.clone()
        dist.all_reduce(tensor, self._op)
        return [(tensor, self._reduced)]

    def _all_reduce_coalesced(self) -> Pairs:
        tensors = [self._mine.clone(), self._mine[:1].clone()]
        dist.all_reduce_coalesced(tensors, self._op)
        return [(tensors[0], self._reduced), (tensors[1], self._reduced[:1])]

    def _reduce(self) -> Pairs:
        tensor = self._mine.clone()
        dist.reduce(tensor, 1, self._op)
        return [(tensor, self._reduced)] if self._rank == 1 else []

    def _reduce_scatter(self) -> Pairs:
        right = self._reduced.chunk(2)[self._rank]
        output = self._blank(right)
        dist.reduce_scatter(output, [part.clone() for part in self._mine.chunk(2)], self._op)
        return [(output, right)]

    def _reduce_scatter_tensor(self) -> Pairs:
        right = self._reduced.chunk(2)[self._rank]
        output = self._blank(right)
        dist.reduce_scatter_tensor(output, self._mine.clone(), self._op)
        return [(output, right)]


Pairs = list[tuple[torch.Tensor, torch.Tensor]]
_OPERATIONS: Mapping[str, Callable[[Attempt], Pairs]] = {
    "broadcast": Attempt._broadcast,
    "scatter": Attempt._scatter,
    "gather": Attempt._gather,
    "all_gather": Attempt._all_gather,
    "all_gather_into_tensor": Attempt._all_gather_into_tensor,
    "all_gather_coalesced": Attempt._all_gather_coalesced,
    "all_to_all": Attempt._all_to_all,
    "all_to_all_single": Attempt._all_to_all_single,
    "send": Attempt._send,
    "all_reduce": Attempt._all_reduce,
    "all_reduce_coalesced": Attempt._all_reduce_coalesced,
    "reduce": Attempt._reduce,
    "reduce_scatter": Attempt._reduce_scatter,
    "reduce_scatter_tensor": Attempt._reduce_scatter_tensor,
}


def _reduce_op(name: str) -> Any:
    return (
        dist._make_nccl_premul_sum(FACTOR) if name == "premul_sum" else getattr(dist.ReduceOp, name.upper())
    )
