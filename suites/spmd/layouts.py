"""How DTensor lays out what an operator gives, by how its tensors lie: a table, made of a process alone.

A line of the table is an operator as it is written, with the shapes of its tensors, and what came of each way
in which these can lie: the placements of its results, of the gradients, and the collectives that it took.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import warnings
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.nn import functional as F
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._pytree import tree_leaves

from suites.spmd.dtensor_base import Communication

RANKS = 4
R = Replicate()
#: The sums that are tried: of operators of one tensor all kinds, of more the usual.
SUMS = ("sum", "max", "min", "avg")
#: How DTensor, or an operator on a shard, refuses a way.
REFUSALS = (RuntimeError, ValueError, AssertionError)
#: So many ways are tried of an operator at the most, spread over all.
MOST = 4
_TENSOR = re.compile(r"([xyz])(\w*)\[([\d,]+)\]")
#: What an expression of the table may name beside its tensors.
NAMES = {"torch": torch, "F": F, "aten": torch.ops.aten}


@contextlib.contextmanager
def meshes() -> Iterator[dict[int, DeviceMesh]]:
    """Meshes of one and of two dimensions of a world of which this process is a rank and plays no other."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    try:
        yield {1: init_device_mesh("cpu", (RANKS,)), 2: init_device_mesh("cpu", (2, 2))}
    finally:
        dist.destroy_process_group()


def word(placement: Placement) -> str:
    """A placement in as few letters as it takes."""
    if type(placement) is Shard:
        return f"S{placement.dim}"
    if type(placement) is Partial:
        return {"sum": "P"}.get(placement.reduce_op, f"P{placement.reduce_op}")
    return "R" if isinstance(placement, Replicate) else str(placement).replace(" ", "")


def words(placements: Sequence[Placement]) -> str:
    return "".join(map(word, placements))


class Operator:
    """An operator of the table: ``x[8,4] yi[4]: x.index_select(0, y)``.

    A letter behind a tensor's name says that it has indices (``i``) or truth values (``b``), and ``/2`` that
    the mesh has two dimensions.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        head, _, self.expression = text.partition(": ")
        self.dimensions = 2 if head.endswith("/2") else 1
        self.tensors = [
            (name, kind, [int(size) for size in sizes.split(",")])
            for name, kind, sizes in _TENSOR.findall(head)
        ]

    def ways(self) -> list[tuple[tuple[Placement, ...], ...]]:
        """Ways in which the tensors can lie."""
        sums = SUMS if len(self.tensors) == self.dimensions == 1 else SUMS[:1]
        each = []
        for _, kind, sizes in self.tensors:
            choices = [R, *map(Shard, range(len(sizes)))]
            choices += [] if kind else [Partial(of) for of in sums]
            each.append(list(itertools.product(choices, repeat=self.dimensions)))
        every = list(itertools.product(*each))
        return every if len(each) == self.dimensions == 1 else every[:: -(-len(every) // MOST)]

    def tried(self, mesh: DeviceMesh, way: tuple[tuple[Placement, ...], ...]) -> str:
        """What comes of one way, in words."""
        laid = {
            name: _laid(kind, sizes, mesh, placements)
            for (name, kind, sizes), placements in zip(self.tensors, way, strict=True)
        }
        started = ",".join(map(words, way))
        try:
            with Communication() as forth:
                results = [
                    each
                    for each in tree_leaves(eval(self.expression, NAMES, laid))
                    if isinstance(each, DTensor)
                ]
        except REFUSALS as error:
            return f"{started} {type(error).__name__}"
        found = f"{started}>{','.join(words(each.placements) for each in results)}{_moved(forth)}"
        leaves = [each for each in laid.values() if each.requires_grad]
        if not (leaves and results and results[0].requires_grad):
            return found
        try:
            with Communication() as back:
                slope = DTensor.from_local(torch.ones(results[0].shape), mesh, run_check=False)
                gradients = torch.autograd.grad(results[0], leaves, slope, allow_unused=True)
        except REFUSALS as error:
            return f"{found}<{type(error).__name__}"
        back_words = ("-" if each is None else words(each.placements) for each in gradients)
        return f"{found}<{','.join(back_words)}{_moved(back)}"

    def row(self, of: dict[int, DeviceMesh]) -> str:
        """The line of the table."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return " ".join(self.tried(of[self.dimensions], way) for way in self.ways())


def _laid(kind: str, sizes: list[int], mesh: DeviceMesh, placements: Sequence[Placement]) -> DTensor:
    """A tensor of the table with this rank's part of zeros and ones; uneven parts where it cannot be even."""
    whole, own = torch.empty(sizes, device="meta"), list(sizes)
    for parts, placement in zip(mesh.shape, placements, strict=True):
        if isinstance(placement, Shard):
            own[placement.dim] = -(-own[placement.dim] // parts)
    local = torch.zeros(own, dtype=torch.int64) if kind == "i" else torch.ones(own)
    if kind == "b":
        local = local.bool()
    local.requires_grad_(not kind)
    made = DTensor.from_local(
        local, mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )
    return made.detach().requires_grad_(not kind)


def _moved(communication: Communication) -> str:
    short = {"all_gather_into_tensor": "ag", "reduce_scatter_tensor": "rs", "all_reduce": "ar"}
    counts = sorted((short.get(name, name), count) for name, count in communication.counts.items())
    return "".join(f"!{name}{'' if count == 1 else count}" for name, count in counts)
