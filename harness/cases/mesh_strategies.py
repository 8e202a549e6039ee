"""Hypothesis strategies for DTensor tests: mesh shapes, tensor shapes, placements, and layouts of all three.

    for layout in same_draws(layouts(self.world_size)):
        mesh = init_device_mesh(self.device_type, layout.mesh_shape)
        distributed = distribute_tensor(torch.rand(layout.shape), mesh, layout.placements)

They depend on their arguments and never on the rank, so ``same_draws`` gives every rank the same. A test of
one process passes them to ``@given``. Small values come first: one mesh dimension, replicated, few elements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from torch.distributed.tensor import Partial, Placement, Replicate, Shard

from harness.errors import UsageError

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# Large enough for shards of two or more rows on four ranks, and for uneven shards.
MAX_SIDE = 9
MAX_DIMS = 3


@dataclass(frozen=True, slots=True)
class Layout:
    """A tensor's shape and its placement on a mesh: one placement for each dimension of the mesh."""

    mesh_shape: tuple[int, ...]
    shape: tuple[int, ...]
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A redistribution: a tensor's shape, a mesh, and placements before and after."""

    mesh_shape: tuple[int, ...]
    shape: tuple[int, ...]
    before: tuple[Placement, ...]
    after: tuple[Placement, ...]


def mesh_shapes(
    world_size: int, *, max_dims: int = MAX_DIMS, ones: bool = False
) -> SearchStrategy[tuple[int, ...]]:
    """Shapes of meshes over all ranks: for 8 these are (8,), (2, 4), (4, 2) and (2, 2, 2).

    With ``ones`` dimensions of size 1 as well, up to ``max_dims`` dimensions in all. UsageError for a world
    size or a number of dimensions below 1.
    """
    _at_least(1, world_size=world_size, max_dims=max_dims)
    return st.sampled_from(
        sorted(_factors(world_size, max_dims, 1 if ones else 2), key=lambda s: (len(s), s))
    )


def tensor_shapes(
    *, min_dims: int = 1, max_dims: int = MAX_DIMS, max_side: int = MAX_SIDE, empty: bool = False
) -> SearchStrategy[tuple[int, ...]]:
    """Shapes of tensors with sides from 1 to ``max_side``, with ``empty`` from 0.

    Most sides are not divisible by the world size: some ranks have smaller shards, some none. UsageError
    where the bounds exclude every shape.
    """
    _at_least(0, min_dims=min_dims)
    _at_least(min_dims, max_dims=max_dims)
    _at_least(1, max_side=max_side)
    side = st.integers(0 if empty else 1, max_side)
    return st.lists(side, min_size=min_dims, max_size=max_dims).map(tuple)


def mesh_placements(
    mesh_dims: int, tensor_dims: int, *, partial: Sequence[str] = ()
) -> SearchStrategy[tuple[Placement, ...]]:
    """A placement for each mesh dimension: replicated, sharded on any tensor dimension, or partial.

    Two mesh dimensions may shard the same tensor dimension, the earlier one first. ``partial`` are reductions
    (``"sum"``, ``"avg"``, ``"max"`` and so on); all partial placements of one draw have the same, since the
    order of different ones would change the result. UsageError for a mesh without dimensions.
    """
    _at_least(1, mesh_dims=mesh_dims)
    _at_least(0, tensor_dims=tensor_dims)
    whole: list[Placement] = [Replicate(), *map(Shard, range(tensor_dims))]
    kinds = [[*whole, Partial(reduction)] for reduction in partial] or [whole]
    one = [st.lists(st.sampled_from(kind), min_size=mesh_dims, max_size=mesh_dims) for kind in kinds]
    return st.one_of(one).map(tuple)


def layouts(
    world_size: int,
    *,
    meshes: SearchStrategy[tuple[int, ...]] | None = None,
    shapes: SearchStrategy[tuple[int, ...]] | None = None,
    partial: Sequence[str] = (),
) -> SearchStrategy[Layout]:
    """Layouts over ``world_size`` ranks.

    ``meshes`` and ``shapes`` are the strategies for their parts, by default ``mesh_shapes(world_size)`` and
    ``tensor_shapes()``.
    """
    return moves(world_size, meshes=meshes, shapes=shapes, partial=partial).map(
        lambda move: Layout(move.mesh_shape, move.shape, move.before)
    )


def moves(
    world_size: int,
    *,
    meshes: SearchStrategy[tuple[int, ...]] | None = None,
    shapes: SearchStrategy[tuple[int, ...]] | None = None,
    partial: Sequence[str] = (),
) -> SearchStrategy[Move]:
    """Redistributions over ``world_size`` ranks, whose result is never partial.

    ``meshes`` and ``shapes`` as in ``layouts``.
    """
    a_mesh = mesh_shapes(world_size) if meshes is None else meshes
    a_shape = tensor_shapes() if shapes is None else shapes

    def placed(mesh_and_shape: tuple[tuple[int, ...], tuple[int, ...]]) -> SearchStrategy[Move]:
        mesh, shape = mesh_and_shape
        before = mesh_placements(len(mesh), len(shape), partial=partial)
        return st.builds(Move, st.just(mesh), st.just(shape), before, mesh_placements(len(mesh), len(shape)))

    return st.tuples(a_mesh, a_shape).flatmap(placed)


def _factors(product: int, most: int, least: int) -> Iterator[tuple[int, ...]]:
    """``(product,)``, and all tuples of 2 to ``most`` factors of at least ``least`` whose product it is."""
    yield (product,)
    divisors = [n for n in range(least, product + 1) if product % n == 0]
    for dims in range(2, most + 1):
        for factors in itertools.product(divisors, repeat=dims):
            if math.prod(factors) == product:
                yield factors


def _at_least(least: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < least:
            raise UsageError(f"{name}={number}: has to be {least} or more")
