"""Takes traceable wrapper subclasses of Tensor apart, and shards plain tensors like a given DTensor."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


@dataclass(frozen=True, slots=True)
class Parts:
    """What a wrapper subclass is rebuilt from: its tensors, its other parts, and its context.

    ``others`` are parts that are not tensors, such as a DTensor's mesh since torch 2.12
    (pytorch/pytorch#178115, pytorch/pytorch#176235).
    """

    tensors: dict[str, torch.Tensor]
    others: dict[str, Any]
    context: Any


def parts_of(wrapper: Any) -> Parts:
    """The parts of ``wrapper``, according to its ``__tensor_flatten__``."""
    names, context = wrapper.__tensor_flatten__()
    parts = {name: getattr(wrapper, name) for name in names}
    tensors = {name: part for name, part in parts.items() if isinstance(part, torch.Tensor)}
    return Parts(tensors, {name: part for name, part in parts.items() if name not in tensors}, context)


def sharded_as(tensor: Any, plain: torch.Tensor) -> torch.Tensor | None:
    """``plain`` as a DTensor with the placements of ``tensor``; None if ``tensor`` is not a DTensor.

    ``plain`` has the size of the whole DTensor. Partial placements become replicated ones.
    """
    module = sys.modules.get("torch.distributed.tensor")  # where there is a DTensor, it is imported
    if module is None or not isinstance(tensor, module.DTensor):
        return None
    mesh, replicate = tensor.device_mesh, module.Replicate()
    whole = module.DTensor.from_local(plain, mesh, [replicate] * mesh.ndim, run_check=False)
    placements = [replicate if each.is_partial() else each for each in tensor.placements]
    alike: torch.Tensor = whole.redistribute(mesh, placements)
    return alike
