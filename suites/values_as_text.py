"""``text``: what expressions of accepted tables give, or how they are refused, in a line."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.distributed.tensor import Placement, _op_schema
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry, TensorMeta
from torch.distributed.tensor._ops import _view_ops

REFUSALS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)


def refusal(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(str(error))}".rstrip(": ")


def first_line(words: str) -> str:
    return words.partition("\n")[0][:70]


def text(value: Any) -> str:
    """A value in one line."""
    if isinstance(value, torch.Tensor) and _is_freed(value):
        return f"freed {value.dtype} {tuple(value.shape)}"
    if isinstance(value, torch.Tensor):
        return f"{value.tolist()} {value.dtype} {value.stride()}"
    if isinstance(value, ShardOrderEntry):
        return f"{value.tensor_dim} by {value.mesh_dims}"
    if isinstance(value, DTensorSpec):
        more = "" if value.tensor_meta is None else f" {text(value.tensor_meta)}"
        return f"{text(value.placements)} in {text(value.shard_order)}{more}"
    if isinstance(value, TensorMeta):
        return f"{tuple(value.shape)} {value.stride} {value.dtype}"
    if isinstance(value, Placement):
        return str(value)
    if isinstance(value, _op_schema.OpStrategy):
        return "; ".join(map(text, value.strategies))
    if isinstance(value, _op_schema.OpSpec):
        costs = "" if value.redistribute_cost is None else f" costs {value.redistribute_cost}"
        return f"{value}{costs}"
    if isinstance(value, _view_ops.DimSpec):
        fields = (text(getattr(value, each.name)) for each in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(fields)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text(name)}: {text(of)}" for name, of in value.items()) + "}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(text, value))})"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(text, value)))}}}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _is_freed(tensor: torch.Tensor) -> bool:
    """Whether there are no numbers for the tensor's shape, which FSDP1 does to what it has gathered."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and 0 == tensor.untyped_storage().size() < tensor.numel()
    )
