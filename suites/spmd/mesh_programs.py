"""The collectives that are traced over the dimensions of a mesh, each with its answer worked out in numpy.

Owns, for each of them: the traced function, what every rank puts in, what comes out, which collectives its
graph must hold, and what is read where a graph does not wait. Nothing here compares or communicates by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.distributed.device_mesh import DeviceMesh

#: Names of the collectives before and since torch 2.13; the older ones warn there.
all_gather = getattr(funcol, "all_gather_single", None) or funcol.all_gather_tensor
reduce_scatter = getattr(funcol, "reduce_scatter_single", None) or funcol.reduce_scatter_tensor
all_gather_coalesced = (
    getattr(funcol, "all_gather_single_coalesced", None) or funcol.all_gather_into_tensor_coalesced
)
reduce_scatter_coalesced = (
    getattr(funcol, "reduce_scatter_single_coalesced", None) or funcol.reduce_scatter_tensor_coalesced
)

#: Two ranks' numbers are this far apart, and so are what two ranks mean for the same receiver.
APART = 100.0

Array = np.ndarray
Arrays = Sequence[Array]


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of a mesh as one rank sees it: its group's global ranks in order, itself at ``place``."""

    mesh: DeviceMesh
    dim: int
    members: tuple[int, ...]
    place: int

    @property
    def over(self) -> tuple[DeviceMesh, int]:
        """What a functional collective takes as its group."""
        return (self.mesh, self.dim)

    @property
    def group(self) -> dist.ProcessGroup:
        """What a plain collective takes."""
        return self.mesh.get_group(self.dim)

    @property
    def size(self) -> int:
        """How many ranks are in the group."""
        return len(self.members)


def numbers(rank: int, *shape: int) -> Array:
    """A rank's array: no two elements of any two ranks are the same."""
    return (APART * rank + np.arange(np.prod(shape)).reshape(shape)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Program:
    """A function of tensors over one axis.

    ``call(axis, *tensors)`` is traced. ``given(rank, members)`` are a rank's inputs. ``expected(inputs,
    place)`` is what the member at ``place`` gets, from the inputs of all members in order. ``collectives``
    are the operators in the graph, in order, and ``waits`` how many waits there are.

    ``late`` is the place of the member without which no other one has its result; ``stale(inputs)`` is what
    another member, of two, reads then (of its own inputs), or None for memory that nobody has written.
    """

    call: Callable[..., Any]
    expected: Callable[[Sequence[Arrays], int], Arrays]
    collectives: tuple[str, ...]
    given: Callable[[int, Sequence[int]], Arrays] = lambda rank, members: [numbers(rank, 3, 3)]
    waits: int = 1
    late: int = -1
    stale: Callable[[Arrays], Arrays] | None = None


def _square(rank: int, members: Sequence[int]) -> Arrays:
    """A matrix that groups of two and of four divide."""
    return [numbers(rank, 4, 4)]


def _pair(rank: int, members: Sequence[int]) -> Arrays:
    """Two matrices, for collectives of several tensors at once."""
    return [numbers(rank, 4, 4), 2 * numbers(rank, 8, 4)]


def _sum(inputs: Sequence[Arrays], which: int = 0) -> Array:
    return np.sum([one[which] for one in inputs], axis=0)


ALL_REDUCE = Program(
    call=lambda axis, t: funcol.all_reduce(t, "sum", axis.over) * 1,
    expected=lambda inputs, place: [_sum(inputs)],
    collectives=("all_reduce",),
    stale=lambda own: own,
)

#: The other reductions that gloo has, by their names in torch.
ALL_REDUCE_WITH = {
    name: Program(
        call=lambda axis, t, name=name: funcol.all_reduce(t, name, axis.over) * 1,
        expected=lambda inputs, place, reduction=reduction: [reduction([one[0] for one in inputs], axis=0)],
        collectives=("all_reduce",),
        stale=lambda own: own,
    )
    for name, reduction in {"max": np.max, "min": np.min, "product": np.prod}.items()
}

BROADCAST = Program(
    call=lambda axis, t: funcol.broadcast(t, 0, axis.over) * 1,
    expected=lambda inputs, place: inputs[0],
    collectives=("broadcast",),
    late=0,
    stale=lambda own: own,
)


def _to_scatter(rank: int, members: Sequence[int]) -> Arrays:
    """Where to receive, and a part for each member: the same member's differs by who gives it."""
    return [np.full((3, 3), -1, np.float32), *(numbers(rank, 3, 3) + 10 * member for member in members)]


def _scatter(axis: Axis, received: torch.Tensor, *parts: torch.Tensor) -> torch.Tensor:
    """There is no functional scatter: a broadcast of all parts, of which each rank takes its own."""
    return received.copy_(funcol.broadcast(torch.stack(parts), 0, axis.over)[axis.place]) * 1


SCATTER = Program(
    call=_scatter,
    expected=lambda inputs, place: [inputs[0][1 + place]],
    collectives=("broadcast",),
    given=_to_scatter,
    late=0,
    # With two members, the one that is not the source is the second.
    stale=lambda own: [own[2]],
)

ALL_GATHER = Program(
    call=lambda axis, t: [part * 1 for part in all_gather(t, 0, axis.over).chunk(axis.size)],
    expected=lambda inputs, place: [one[0] for one in inputs],
    collectives=("all_gather_into_tensor",),
)

ALL_GATHER_COLUMNS = Program(
    call=lambda axis, t: all_gather(t, 1, axis.over) * 1,
    expected=lambda inputs, place: [np.concatenate([one[0] for one in inputs], axis=1)],
    collectives=("all_gather_into_tensor",),
)

REDUCE_SCATTER = Program(
    call=lambda axis, t: reduce_scatter(t, "sum", 0, axis.over) * 1,
    expected=lambda inputs, place: [np.split(_sum(inputs), len(inputs))[place]],
    collectives=("reduce_scatter_tensor",),
    given=_square,
)

REDUCE_SCATTER_COLUMNS = Program(
    call=lambda axis, t: reduce_scatter(t, "sum", 1, axis.over) * 1,
    expected=lambda inputs, place: [np.split(_sum(inputs), len(inputs), axis=1)[place]],
    collectives=("reduce_scatter_tensor",),
    given=_square,
)

ALL_TO_ALL = Program(
    call=lambda axis, t: funcol.all_to_all_single(t, None, None, axis.over) * 1,
    expected=lambda inputs, place: [np.concatenate([np.split(one[0], len(inputs))[place] for one in inputs])],
    collectives=("all_to_all_single",),
    given=_square,
)


def _uneven_rows(places: int) -> list[int]:
    """How many rows each member gets from everybody: one more than the member before."""
    return [1 + place for place in range(places)]


def _uneven_exchange(axis: Axis, t: torch.Tensor) -> torch.Tensor:
    sent = _uneven_rows(axis.size)
    return funcol.all_to_all_single(t, [sent[axis.place]] * axis.size, sent, axis.over) * 1


def _unevenly_received(inputs: Sequence[Arrays], place: int) -> Arrays:
    rows = np.cumsum(_uneven_rows(len(inputs)))[:-1]
    return [np.concatenate([np.split(one[0], rows)[place] for one in inputs])]


ALL_TO_ALL_UNEVEN = Program(
    call=_uneven_exchange,
    expected=_unevenly_received,
    collectives=("all_to_all_single",),
    given=lambda rank, members: [numbers(rank, sum(_uneven_rows(len(members))), 2)],
)

#: Each member sends to the next one, the last to the first. Of vectors: torch splits dimension 0 by the
#: number of all elements, which is wrong for others.
PERMUTE = Program(
    call=lambda axis, t: (
        funcol.permute_tensor(t, [(place + 1) % axis.size for place in range(axis.size)], axis.over) * 1
    ),
    expected=lambda inputs, place: inputs[place - 1],
    collectives=("all_to_all_single",),
    given=lambda rank, members: [numbers(rank, 5)],
)

ALL_REDUCE_COALESCED = Program(
    call=lambda axis, *ts: [one * 1 for one in funcol.all_reduce_coalesced(list(ts), "sum", axis.over)],
    expected=lambda inputs, place: [_sum(inputs, 0), _sum(inputs, 1)],
    collectives=("all_reduce_coalesced",),
    given=_pair,
    waits=2,
    stale=lambda own: own,
)

ALL_GATHER_COALESCED = Program(
    call=lambda axis, *ts: [one * 1 for one in all_gather_coalesced(list(ts), axis.over)],
    expected=lambda inputs, place: [np.concatenate([one[i] for one in inputs]) for i in range(2)],
    collectives=("all_gather_into_tensor_coalesced",),
    given=_pair,
    waits=2,
)

REDUCE_SCATTER_COALESCED = Program(
    call=lambda axis, *ts: [one * 1 for one in reduce_scatter_coalesced([*ts], "sum", [0, 1], axis.over)],
    expected=lambda inputs, place: [
        np.split(_sum(inputs, which), len(inputs), axis=which)[place] for which in range(2)
    ],
    collectives=("reduce_scatter_tensor_coalesced",),
    given=_pair,
    waits=2,
)


# -- plain collectives, whose waits tracing loses, and an operator that blocks


def _broadcast_in_place(axis: Axis, t: torch.Tensor) -> torch.Tensor:
    own = t.clone()
    dist.broadcast(own, group=axis.group, group_src=0)
    return own * 1


def _scatter_in_place(axis: Axis, received: torch.Tensor, *parts: torch.Tensor) -> torch.Tensor:
    own = torch.zeros_like(received)
    dist.scatter(own, list(parts) if axis.place == 0 else None, group=axis.group, group_src=0)
    return own * 1


PLAIN_BROADCAST = Program(
    call=_broadcast_in_place,
    expected=BROADCAST.expected,
    collectives=("broadcast_",),
    waits=0,
    late=0,
    stale=lambda own: own,
)

PLAIN_SCATTER = Program(
    call=_scatter_in_place,
    expected=SCATTER.expected,
    collectives=("scatter_",),
    given=_to_scatter,
    waits=0,
    late=0,
    stale=lambda own: [np.zeros_like(own[0])],
)


@torch.library.custom_op("suites_spmd::scatter", mutates_args=())
def scatter(parts: list[torch.Tensor], group_name: str) -> torch.Tensor:
    """Return this rank's part of what the first member of the group gives, when it is here."""
    group = dist.distributed_c10d._resolve_process_group(group_name)
    own = torch.zeros_like(parts[0])
    dist.scatter(own, parts if group.rank() == 0 else None, group=group, group_src=0)
    return own


@scatter.register_fake
def _(parts: list[torch.Tensor], group_name: str) -> torch.Tensor:
    return torch.empty_like(parts[0])


BLOCKING_SCATTER = Program(
    call=lambda axis, received, *parts: scatter(list(parts), axis.group.group_name) * 1,
    expected=SCATTER.expected,
    collectives=(),
    given=_to_scatter,
    waits=0,
)
