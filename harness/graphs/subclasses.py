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


def as_operand_of(wrapper: Any, plain: torch.Tensor) -> torch.Tensor:
    """``plain``, of the wrapper's size, as operators take it beside that: for a DTensor, sharded alike."""
    module = sys.modules.get("torch.distributed.tensor")  # where there is a DTensor, it is imported
    if module is None or not isinstance(wrapper, module.DTensor):
        return plain
    mesh, replicate = wrapper.device_mesh, module.Replicate()
    whole = module.DTensor.from_local(plain, mesh, [replicate] * mesh.ndim, run_check=False)
    placements = [replicate if each.is_partial() else each for each in wrapper.placements]
    alike: torch.Tensor = whole.redistribute(mesh, placements)
    return alike
