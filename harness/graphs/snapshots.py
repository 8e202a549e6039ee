"""``TensorSnapshot``: a tensor as it was at one moment, to be compared after it has changed."""

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
    """A tensor as it was at one moment. ``values`` is None where its storage holds no data for it.

    ``parts`` are a wrapper subclass's tensors, ``context`` is what else makes it.
    """

    metadata: dict[str, Any]
    values: torch.Tensor | None
    parts: dict[str, TensorSnapshot] = field(default_factory=dict)
    context: Any = None


def snapshots(named: Sequence[Named]) -> dict[str, TensorSnapshot]:
    """A snapshot of each, by name; a lazy module's parameters that have no sizes yet are left out."""
    return {name: snapshot(tensor) for name, tensor in named if not is_lazy(tensor)}


def snapshot(tensor: torch.Tensor) -> TensorSnapshot:
    """``tensor`` as it is now."""
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
    """Whether ``tensor`` requires grad and is a leaf; where a write has made a view invalid, that."""
    try:
        return {"requires_grad": tensor.requires_grad, "is_leaf": tensor.is_leaf}
    except RuntimeError as refusal:
        return {"requires_grad": f"refused ({refusal})", "is_leaf": ""}


def _telling_strides(tensor: torch.Tensor) -> tuple[int | None, ...]:
    """The strides; None where the size is 1, and in all of an empty tensor: they lead nowhere there."""
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
    """How many elements of its storage, from the storage's first on, ``tensor`` needs."""
    if not tensor.numel():
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
    return int(tensor.storage_offset() + last + 1)
