"""Tests the strategies of meshes, placements and shapes: they draw all that they promise and nothing else."""

from __future__ import annotations

import math
import unittest
from collections.abc import Callable
from typing import Any

from hypothesis import find, given
from torch.distributed.tensor import Partial, Replicate, Shard

from harness import UsageError, layouts, mesh_placements, mesh_shapes, moves, same_draws, tensor_shapes
from harness.hypothesis_examples import bounded


def all_of(strategy: Any) -> set[Any]:
    """Returns all values of a strategy that has few."""
    return set(same_draws(strategy, 1000))


class MeshShapesTest(unittest.TestCase):
    """The strategy of mesh shapes."""

    def test_all(self) -> None:
        """Every ordered factorization of the world size is drawn, and no other shape."""
        self.assertEqual(all_of(mesh_shapes(8)), {(8,), (2, 4), (4, 2), (2, 2, 2)})
        self.assertEqual(all_of(mesh_shapes(12, max_dims=2)), {(12,), (2, 6), (3, 4), (4, 3), (6, 2)})
        self.assertEqual(all_of(mesh_shapes(7)), {(7,)})
        self.assertEqual(all_of(mesh_shapes(1)), {(1,)})

    def test_ones(self) -> None:
        """With ``ones``, shapes also have dimensions of one rank, up to the number of dimensions."""
        self.assertEqual(all_of(mesh_shapes(4, max_dims=2, ones=True)), {(1, 4), (2, 2), (4,), (4, 1)})
        self.assertEqual(all_of(mesh_shapes(1, ones=True)), {(1, 1, 1), (1, 1), (1,)})

    def test_simplest(self) -> None:
        """The simplest shape has one dimension."""
        self.assertEqual(find(mesh_shapes(8), lambda _: True), (8,))


class TensorShapesTest(unittest.TestCase):
    """The strategy of tensor shapes."""

    @bounded(200)
    @given(tensor_shapes(min_dims=2, max_dims=3, max_side=4))
    def test_bounds(self, shape: tuple[int, ...]) -> None:
        """The number of dimensions and their sizes are within the bounds."""
        self.assertIn(len(shape), (2, 3))
        self.assertLessEqual({*shape}, {1, 2, 3, 4})

    def test_empty(self) -> None:
        """Empty tensors and tensors without dimensions are drawn only if asked for."""
        find(tensor_shapes(empty=True), lambda shape: 0 in shape)
        find(tensor_shapes(min_dims=0), lambda shape: shape == ())
        self.assertEqual(find(tensor_shapes(), lambda _: True), (1,))


class PlacementsTest(unittest.TestCase):
    """Placements on a mesh."""

    def test_all(self) -> None:
        """Every combination is drawn, including the same tensor dimension sharded twice."""
        one, other, both = Shard(0), Shard(1), Replicate()
        self.assertEqual(all_of(mesh_placements(1, 2)), {(both,), (one,), (other,)})
        self.assertEqual(len(all_of(mesh_placements(2, 2))), 9)
        self.assertIn((one, one), all_of(mesh_placements(2, 2)))

    def test_partial(self) -> None:
        """A draw has at most one kind of reduction."""
        drawn = all_of(mesh_placements(2, 1, partial=("sum", "max")))
        self.assertEqual(len(drawn), 2 * 9 - 4)
        reductions = [{p.reduce_op for p in each if isinstance(p, Partial)} for each in drawn]
        self.assertEqual(max(map(len, reductions)), 1)
        self.assertEqual(set().union(*reductions), {"sum", "max"})

    def test_number(self) -> None:
        """A tensor without dimensions is replicated only."""
        self.assertEqual(all_of(mesh_placements(1, 0)), {(Replicate(),)})


class LayoutsTest(unittest.TestCase):
    """Layouts, which join a mesh, a shape and placements, and moves between two layouts."""

    @bounded(200)
    @given(layouts(8, partial=("sum",)))
    def test_fits(self, layout: Any) -> None:
        """There is a placement for each mesh dimension, and it shards a dimension that the tensor has."""
        self.assertEqual(math.prod(layout.mesh_shape), 8)
        self.assertEqual(len(layout.placements), len(layout.mesh_shape))
        sharded = [p.dim for p in layout.placements if isinstance(p, Shard)]
        self.assertTrue(all(0 <= dim < len(layout.shape) for dim in sharded))

    @bounded(200)
    @given(moves(4, meshes=mesh_shapes(4, max_dims=1), shapes=tensor_shapes(max_side=3), partial=("sum",)))
    def test_moves(self, move: Any) -> None:
        """A move draws from the given strategies and never ends in a partial placement."""
        self.assertEqual(move.mesh_shape, (4,))
        self.assertLessEqual(max(move.shape), 3)
        self.assertFalse(any(isinstance(p, Partial) for p in move.after))

    def test_reach(self) -> None:
        """The first hundred draws include the cases that tests are after."""
        drawn = same_draws(moves(4, partial=("sum",)), 100)
        self.assertTrue(any(p == Partial("sum") for move in drawn for p in move.before))
        self.assertTrue(any(move.before != move.after for move in drawn))
        self.assertTrue(any(move.after.count(Shard(0)) == 2 for move in drawn))
        self.assertTrue(any(side % 4 for move in drawn for side in move.shape))


class RefusedTest(unittest.TestCase):
    """Arguments that make no sense."""

    def test_refused(self) -> None:
        """They are refused with a line that says why, at once and not when the first value is drawn."""
        cases: list[tuple[str, Callable[[], object]]] = [
            ("world_size=0: has to be 1 or more", lambda: mesh_shapes(0)),
            ("max_dims=0: has to be 1 or more", lambda: mesh_shapes(4, max_dims=0)),
            ("min_dims=-1: has to be 0 or more", lambda: tensor_shapes(min_dims=-1)),
            ("max_dims=1: has to be 2 or more", lambda: tensor_shapes(min_dims=2, max_dims=1)),
            ("max_side=0: has to be 1 or more", lambda: tensor_shapes(max_side=0)),
            ("mesh_dims=0: has to be 1 or more", lambda: mesh_placements(0, 1)),
            ("world_size=-2: has to be 1 or more", lambda: layouts(-2)),
        ]
        for message, call in cases:
            with self.subTest(message), self.assertRaisesRegex(UsageError, f"^{message}$"):
                call()


if __name__ == "__main__":
    unittest.main()
