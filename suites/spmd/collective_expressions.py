"""Expressions about functional collectives, and what is called for them, as lines of text.

Owns the names that an expression of ``functional_collectives.txt`` may use beside those of
``dtensor_expressions``. There is one rank of twelve, and what is moved comes back as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed import _functional_collectives
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.nn import functional as dist_nn
from torch.utils._pytree import tree_leaves

from suites.spmd import dtensor_expressions
from suites.spmd.dtensor_expressions import Calls, grid
from suites.values_as_text import REFUSALS, refusal, text

#: The ranks of a group that this process is the second of.
RANKS = [5, 7, 9]


def some() -> dist.ProcessGroup:
    return dist.new_group(RANKS)


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(shape, dtype=dtype)


def called(function: Callable[[], Any], waits: bool = True) -> str:
    """What a call starts, and what it gives."""
    with Calls(waits) as calls:
        try:
            found = function()
        except REFUSALS as error:
            found = refusal(error)
    return "; ".join((*calls.lines, f"gives {_described(found)}"))


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{type(value).__name__}{tuple(value.shape)} {value.dtype}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_described, value))})"
    return text(value)


def and_back(function: Callable[..., Any], *inputs: Tensor) -> str:
    """What a call starts, what the way back starts, and the shapes of the gradients."""
    leaves = [each.requires_grad_() for each in inputs]
    with Calls() as calls:
        results = [each for each in tree_leaves(function(*leaves)) if isinstance(each, Tensor)]
        calls.lines.append(f"gives {_described(results)}, and back")
        try:
            torch.autograd.backward(results, [torch.ones(each.shape) for each in results])
            gradients: Any = [each.grad for each in leaves]
        except REFUSALS as error:
            gradients = refusal(error)
    return "; ".join((*calls.lines, f"gives {_described(gradients)}"))


def traced(function: Callable[..., Any], *shapes: tuple[int, ...]) -> str:
    """The same in a trace, where nothing is in flight."""
    with FakeTensorMode():
        return called(lambda: function(*map(torch.ones, shapes)))


def in_flight(*shape: int) -> AsyncCollectiveTensor:
    """A tensor whose collective has been started and not waited for."""
    group = grid().get_group(0)
    return _functional_collectives.all_reduce(torch.ones(shape), "sum", group)


NAMES: dict[str, Any] = dtensor_expressions.NAMES | {
    name: value for name, value in vars(_functional_collectives).items() if not name.startswith("__")
}
NAMES |= {"nn": dist_nn, "dist": dist, "World": dist.group}
NAMES |= {name: value for name, value in globals().items() if not name.startswith("_")}


def lines_of(expression: str) -> list[str]:
    """What comes of an expression."""
    return dtensor_expressions.lines_of(expression, NAMES)
