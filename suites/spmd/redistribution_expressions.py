"""Expressions about redistributions that are done, forward and back, and what ranks hold afterwards.

Owns the names that an expression of ``redistributions.txt`` may use beside those of ``dtensor_expressions``.
There is one rank of twelve: what it sends is what it gets, so that its numbers say what was done with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, _dispatch, _redistribute, placement_types
from torch.distributed.tensor._api import distribute_tensor
from torch.distributed.tensor.placement_types import MaskBuffer, Shard, _MaskPartial

from suites.spmd import dtensor_expressions
from suites.spmd.dtensor_expressions import Calls, grid, meta, placements
from suites.values_as_text import REFUSALS, refusal


def own(mesh: DeviceMesh, words: str, *shape: int, dtype: torch.dtype = torch.float32) -> DTensor:
    """A tensor of which this rank holds numbers from nought on, in rows."""
    sizes, _ = dtensor_expressions._utils.compute_local_shape_and_global_offset(
        shape, mesh, placements(words)
    )
    local = torch.arange(torch.Size(sizes).numel(), dtype=dtype).view(sizes)
    whole = meta(*shape)
    return DTensor.from_local(
        local, mesh, placements(words), run_check=False, shape=whole.shape, stride=whole.stride
    )


def numbers(of: Tensor | None) -> str:
    """A tensor by its size, its first and last number and the sum of all."""
    if of is None:
        return "nothing"
    if isinstance(of, DTensor):
        return f"{' '.join(map(str, of.placements))} of {tuple(of.shape)}: {numbers(of.to_local())}"
    flat = of.detach().flatten().double()
    ends = f"{flat[0].item():.6g} to {flat[-1].item():.6g}" if flat.numel() else "none"
    return f"{tuple(of.shape)} {of.dtype} {of.stride()} {ends}, in all {flat.sum().item():.6g}"


def done(function: Callable[..., Any], *tensors: DTensor) -> str:
    """What a function gives and starts, and what the gradients of its arguments are then."""
    leaves = [each.detach().requires_grad_(each.is_floating_point()) for each in tensors]
    try:
        with Calls() as forth:
            found = function(*leaves)
        said = f"{'; '.join((*forth.lines, numbers(found)))}"
        if not found.requires_grad:
            return said
        with Calls() as back:
            found.backward(torch.ones_like(found))
        return f"{said}, and back {'; '.join((*back.lines, *(numbers(each.grad) for each in leaves)))}"
    except REFUSALS as error:
        return refusal(error)


def to(words: str, **options: Any) -> Callable[[DTensor], DTensor]:
    """Redistributes."""
    return lambda tensor: tensor.redistribute(placements=placements(words), **options)


def masked(dim: int = 0) -> _MaskPartial:
    """A partial sum of rows of a table, of which this rank has those from six on."""
    found = _MaskPartial("sum", MaskBuffer(), torch.Size([8, 8]), dim)
    found._partition_value(torch.tensor([0, 6, 7, 3]), grid(), 1)
    return found


NAMES: dict[str, Any] = dtensor_expressions.NAMES | {
    name: value
    for module in (_redistribute, placement_types, _dispatch)
    for name, value in vars(module).items()
    if callable(value)
}
NAMES |= {"DTensor": DTensor, "distribute_tensor": distribute_tensor, "Shard": Shard}
NAMES |= {name: value for name, value in globals().items() if not name.startswith("_")}


def lines_of(expression: str) -> list[str]:
    """What comes of an expression."""
    return dtensor_expressions.lines_of(expression, NAMES)
