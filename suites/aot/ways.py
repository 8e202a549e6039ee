"""Programs of two matrices, and ways in which each is compiled and called: inputs, options and regions.

Owns which program is tried in which ways.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.autograd.graph import saved_tensors_hooks
from torch.testing._internal.two_tensor import TwoTensor

from suites.aot import wrappers


def same_result_again(x: Tensor, y: Tensor) -> Any:
    z = x * y
    return z, z, z.view(4, 4), z.t().t(), x.sin(), 7


def both_transposed(x: Tensor, y: Tensor) -> Any:
    x.t_()
    y.t_()
    y.mul_(2)
    return x @ y, y


def written_without_gradient(x: Tensor, y: Tensor) -> Any:
    with torch.no_grad():
        y.mul_(2)
    return x * y, y.detach()


def inputs_themselves(x: Tensor, y: Tensor) -> Any:
    return x, (x * 2).detach(), y, x * y


def views_of_many(x: Tensor, y: Tensor) -> Any:
    first, second = y.chunk(2)
    first.mul_(2)
    return (x * y).unbind(0)[:2], second, x.split(2, 1)[1]


class Flat(torch.autograd.Function):
    """A function of the user's whose result is a view of its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view(16)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return slope.view(4, 4) * 3


def own_view(x: Tensor, y: Tensor) -> Any:
    return Flat.apply(x), x * y


_OWN = (
    same_result_again,
    both_transposed,
    written_without_gradient,
    inputs_themselves,
    views_of_many,
    own_view,
)
PROGRAMS = {**wrappers.PROGRAMS, **{each.__name__: each for each in _OWN}}


@dataclass(frozen=True)
class Way:
    """Inputs, and how a function is compiled and called."""

    make: Callable[[], tuple[Tensor, Tensor]]
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    by_dynamo: bool = False


def _wanted() -> Tensor:
    return torch.rand(4, 4, requires_grad=True)


def _plain() -> tuple[Tensor, Tensor]:
    return _wanted(), torch.rand(4, 4)


def _made() -> tuple[Tensor, Tensor]:
    return _wanted() * 2, _wanted() * 2


def _overlapping() -> tuple[Tensor, Tensor]:
    base = _wanted().view(16).repeat(2)
    return base[:16].view(4, 4), base[8:24].view(4, 4)


def _apart() -> tuple[Tensor, Tensor]:
    """Columns of one base, which share no element."""
    base = torch.rand(4, 8, requires_grad=True) * 2
    return base[:, :4], base[:, 4:]


def _in_the_first() -> tuple[Tensor, Tensor]:
    x = _wanted() * 2
    return x, x.view(4, 4)


def _transposed() -> tuple[Tensor, Tensor]:
    return _wanted().t(), torch.rand(4, 4).t()


def _parameters() -> tuple[Tensor, Tensor]:
    return nn.Parameter(torch.rand(4, 4)), torch.rand(4, 4)


def _pair_of_views() -> tuple[Tensor, Tensor]:
    pair = TwoTensor(torch.rand(4, 4), torch.rand(4, 4)).requires_grad_()
    return pair * 2, TwoTensor(torch.rand(4, 4), torch.rand(4, 4).t())


def _hooks() -> contextlib.AbstractContextManager[Any]:
    return saved_tensors_hooks(lambda of: of.clone(), lambda of: of * 1)


_MIN_CUT = {"partition_fn": min_cut_rematerialization_partition}
WAYS: dict[str, Way] = {
    "both made": Way(_made, _MIN_CUT),
    "overlapping": Way(_overlapping),
    "apart in one base": Way(_apart, _MIN_CUT),
    "a view of the other": Way(_in_the_first),
    "transposed": Way(_transposed, _MIN_CUT, {"guess_tangent_strides_as_outputs": True}),
    "a parameter": Way(_parameters, {"num_params_buffers": 1}, {"donated_buffer": True}),
    "sizes as symbols, made": Way(_made, {"dynamic": True, **_MIN_CUT}),
    "overlapping, sizes as symbols": Way(_overlapping, {"dynamic": True}),
    "without gradients": Way(_plain, {}, {}, torch.no_grad),
    "in inference mode": Way(_plain, {}, {}, torch.inference_mode),
    "in autocast": Way(_plain, _MIN_CUT, {}, lambda: torch.autocast("cpu", torch.bfloat16)),
    "hooks on what is saved": Way(_made, {}, {}, _hooks),
    "views replayed": Way(_made, {}, {"view_replay_for_aliased_outputs": True}),
    "other pairs": Way(_pair_of_views, _MIN_CUT),
    "donated": Way(_plain, _MIN_CUT, {"donated_buffer": True}),
    "asserted": Way(_made, {}, {"debug_assert": True}),
    "by dynamo": Way(_plain, _MIN_CUT, by_dynamo=True),
    "by dynamo, a parameter": Way(_parameters, _MIN_CUT, {"donated_buffer": True}, by_dynamo=True),
    "by dynamo, sizes as symbols": Way(_made, {"dynamic": True}, by_dynamo=True),
}
#: Of each program so many ways are tried, others of each.
TURNS = 3
#: What is tried beside: descriptions of inputs that are written where they share memory.
BESIDE = tuple(
    (program, way)
    for program in ("both_transposed", "transposed_and_written", "same_result_again", "inputs_themselves")
    for way in ("overlapping", "a view of the other", "by dynamo", "without gradients")
)


def chosen() -> Iterator[tuple[str, str]]:
    """Programs with ways, in turn, and what is tried beside."""
    yield from BESIDE
    ways = list(WAYS)
    for number, program in enumerate(PROGRAMS):
        for turn in range(TURNS):
            found = program, ways[(number * TURNS + turn) % len(ways)]
            if found not in BESIDE:
                yield found
