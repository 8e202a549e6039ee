"""Exchanges objects in one rank: the calls of torch.distributed that pickle what they send.

An object is the shape and the numbers of a tensor, from which the tensor is made again where it is received.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from harness.fuzzing import reference
from harness.fuzzing.program import ARGUMENTS, IN_PLACE, Call, CollectiveStep, Message

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def exchanged(
    step: CollectiveStep, rank: int, given: Sequence[torch.Tensor], group: Any
) -> list[torch.Tensor]:
    """What an object collective gives this rank, as tensors on the CPU."""
    inputs = _as_objects(given)
    got: list[Any] = [None] * reference.objects_received(step, step.group.index(rank))
    if step.kind in IN_PLACE:
        inputs = got = inputs if step.group[step.root] == rank else got
    values = {
        "input": inputs[0] if inputs else None,
        "inputs": inputs or None,
        "outputs": got or None,
        "root": step.group[step.root],
    }
    getattr(dist, step.kind)(*[values[name] for name in ARGUMENTS[step.kind]], group=group)
    return _as_tensors(step, got)


def sent(step: Message, given: Sequence[torch.Tensor], group: Any) -> None:
    """Sends a list of objects."""
    dist.send_object_list(_as_objects(given), step.target, group=group)


def received(step: Message, group: Any) -> list[torch.Tensor]:
    """Receives a list of objects, as tensors on the CPU."""
    got: list[Any] = [None] * len(reference.message_shapes(step))
    dist.recv_object_list(got, step.source, group=group)
    return _as_tensors(step, got)


def _as_objects(tensors: Sequence[torch.Tensor]) -> list[Any]:
    return [(tuple(tensor.shape), tensor.flatten().tolist()) for tensor in tensors]


def _as_tensors(step: Call, objects: Sequence[Any]) -> list[torch.Tensor]:
    dtype = getattr(torch, step.dtype)
    return [torch.tensor(numbers, dtype=dtype).reshape(shape) for shape, numbers in objects]
