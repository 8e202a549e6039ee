"""``others``: collectives in a process that is alone, where each other rank's part is made of this rank's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from suites.fsdp.schedule import Schedule


@contextlib.contextmanager
def others(schedule: Schedule) -> Iterator[None]:
    """A region where each rank has what this one has, plus the number of places by which it comes later.

    So the order in which parts are put together shows. Whom a collective is with, is written down.
    """
    real = {name: getattr(dist, name) for name in _COLLECTIVES}

    def places(group: Any, op: Any = None) -> list[int]:
        ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
        schedule.note(f"of {ranks}{'' if op is None else f' {_operation(op)}'}")
        own = ranks.index(dist.get_rank())
        return [place - own for place in range(len(ranks))]

    def started(work: Any) -> Any:
        return None if work is None else Started(work, schedule)

    def all_gather(parts: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        later, own = places(group), tensor.clone()
        work = real["all_gather"](parts, tensor, group=group, async_op=async_op)
        for part, more in zip(parts, later, strict=True):
            part.copy_(own + more)
        return started(work)

    def all_gather_single(output: Any, input: Any, group: Any = None, async_op: bool = False) -> Any:
        later, own = places(group), input.flatten().clone()
        work = real["all_gather_single"](output, input, group=group, async_op=async_op)
        for part, more in zip(output.view(len(later), -1), later, strict=True):
            part.copy_(own if own.dtype is torch.uint8 else own + more)  # bytes are those of other types
        return started(work)

    def reduce_scatter_single(
        output: Any, input: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False
    ) -> Any:
        later = places(group, op)
        own = input.view(len(later), *output.shape)[later.index(0)]
        work = real["reduce_scatter_single"](output, input, op=op, group=group, async_op=async_op)
        output.copy_(_reduced(own, later, op))
        return started(work)

    def all_reduce(
        tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False
    ) -> Any:
        later, own = places(group, op), tensor.clone()
        work = real["all_reduce"](tensor, op=op, group=group, async_op=async_op)
        tensor.copy_(_reduced(own, later, op))
        return started(work)

    given = (all_gather, all_gather_single, reduce_scatter_single, all_reduce)
    with mock.patch.multiple(dist, **{each.__name__: each for each in given}):
        yield


class Started(dist.Work):
    """Work that writes down when it is waited for."""

    def __init__(self, work: dist.Work, schedule: Schedule) -> None:
        super().__init__()
        self._work, self._schedule = work, schedule

    def wait(self, *args: Any) -> bool:
        self._schedule.note("waited for")
        return bool(self._work.wait(*args))


_COLLECTIVES = ("all_gather", "all_gather_single", "reduce_scatter_single", "all_reduce")


def _reduced(own: torch.Tensor, later: list[int], op: Any) -> torch.Tensor:
    """What is reduced of this rank's values and those of the others."""
    kind, _, by = _operation(op).partition(" ")
    parts = torch.stack([own + more for more in later])
    if kind in ("MAX", "MIN"):
        return parts.amax(0) if kind == "MAX" else parts.amin(0)
    return parts.sum(0, dtype=own.dtype) * float(by or 1) / (len(later) if kind == "AVG" else 1)


def _operation(op: Any) -> str:
    """The name of a reduction, and by what it multiplies."""
    kept = op.__getstate__() if isinstance(op, dist.ReduceOp) else int(op)
    kind, *by = kept if isinstance(kept, tuple) else (kept,)
    return " ".join([dist.ReduceOp.RedOpType(kind).name, *(f"{float(each):.6g}" for each in by)])
