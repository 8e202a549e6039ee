"""``TensorSnapshot``: a tensor's metadata and values at one moment, to compare after it has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from harness.graphs.aliasing import Named
from harness.graphs.subclasses import parts_of

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


@dataclass(frozen=True, slots=True)
class TensorSnapshot:
    """A tensor at one moment. ``values`` is None if its storage does not hold its data.

    ``parts`` are the tensors inside a wrapper subclass, and ``context`` is the rest that is needed to rebuild
    it.
    """

    metadata: dict[str, Any]
    values: torch.Tensor | None
    parts: dict[str, TensorSnapshot] = field(default_factory=dict)
    context: Any = None


def snapshots(named: Sequence[Named]) -> dict[str, TensorSnapshot]:
    """The snapshot of each tensor by name; lazy parameters, which have no size yet, are left out."""
    return {name: snapshot(tensor) for name, tensor in named if not is_lazy(tensor)}


def snapshot(tensor: torch.Tensor) -> TensorSnapshot:
    """The snapshot of ``tensor`` as it is now."""
    metadata = {
        "type": type(tensor),
        "dtype": tensor.dtype,
        "device": tensor.device,
        "layout": tensor.layout,
        "shape": tuple(tensor.shape),
        **_of_autograd(tensor),
    }
    if tensor.layout == torch.strided:
        metadata["stride"] = _telling_strides(tensor)
    if is_traceable_wrapper_subclass(tensor):
        # Its own storage is a pretence; those of its parts count.
        parts = parts_of(tensor)
        inside = {name: snapshot(part) for name, part in parts.tensors.items()}
        return TensorSnapshot(metadata, None, inside, (parts.context, *parts.others.items()))
    if tensor.layout == torch.strided:
        metadata["storage_offset"] = tensor.storage_offset()
        metadata["storage_bytes"] = tensor.untyped_storage().nbytes()
    return TensorSnapshot(metadata, _values(tensor))


def _of_autograd(tensor: torch.Tensor) -> dict[str, Any]:
    """``requires_grad`` and ``is_leaf``, or autograd's error if a write has made the view invalid."""
    try:
        return {"requires_grad": tensor.requires_grad, "is_leaf": tensor.is_leaf}
    except RuntimeError as refusal:
        return {"requires_grad": f"refused ({refusal})", "is_leaf": ""}


def _telling_strides(tensor: torch.Tensor) -> tuple[int | None, ...]:
    """The strides, with None where they do not matter: for dimensions of size 1, and in an empty tensor."""
    telling = tensor.numel() > 0
    strides = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(int(stride) if telling and size != 1 else None for size, stride in strides)


def _values(tensor: torch.Tensor) -> torch.Tensor | None:
    if tensor.is_meta:
        return None
    with torch.no_grad():
        if tensor.layout != torch.strided:
            return tensor.detach().to_dense().clone()
        held = tensor.untyped_storage().nbytes()
        if tensor.numel() and (not held or reach(tensor) * tensor.element_size() > held):
            return None
        plain = tensor.detach().as_subclass(torch.Tensor)
        return plain.resolve_conj().resolve_neg().clone()


def reach(tensor: torch.Tensor) -> int:
    """How many elements its storage must have for ``tensor``, counted from the start of the storage."""
    if not tensor.numel():
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
    return int(tensor.storage_offset() + last + 1)
