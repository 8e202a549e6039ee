"""What a traceable wrapper subclass of Tensor is made of."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


@dataclass(frozen=True, slots=True)
class Parts:
    """The tensors in a wrapper, its parts that are none (a DTensor's mesh, since torch 2.12), the context."""

    tensors: dict[str, torch.Tensor]
    others: dict[str, Any]
    context: Any


def parts_of(wrapper: Any) -> Parts:
    """By its ``__tensor_flatten__``."""
    names, context = wrapper.__tensor_flatten__()
    parts = {name: getattr(wrapper, name) for name in names}
    tensors = {name: part for name, part in parts.items() if isinstance(part, torch.Tensor)}
    return Parts(tensors, {name: part for name, part in parts.items() if name not in tensors}, context)


def sharded_as(tensor: Any, plain: torch.Tensor) -> torch.Tensor | None:
    """``plain``, of a DTensor's size, as a DTensor of its placements; None where ``tensor`` is no DTensor.

    What a DTensor holds as parts of a sum is replicated.
    """
    module = sys.modules.get("torch.distributed.tensor")  # where there is a DTensor, it is imported
    if module is None or not isinstance(tensor, module.DTensor):
        return None
    mesh, replicate = tensor.device_mesh, module.Replicate()
    whole = module.DTensor.from_local(plain, mesh, [replicate] * mesh.ndim, run_check=False)
    placements = [replicate if each.is_partial() else each for each in tensor.placements]
    alike: torch.Tensor = whole.redistribute(mesh, placements)
    return alike
