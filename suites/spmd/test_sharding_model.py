"""The model of shards that DTensor is compared with: against ``torch.chunk``, and by hand."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.tensor import Partial, Replicate, Shard

from harness import TestCase, layouts, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.hypothesis_examples import bounded
from suites.spmd.sharding_model import REDUCTIONS, Pieces, bounds, coordinate, cut, small_numbers


class ShardingModelTest(TestCase):
    """What the model says that ranks hold."""

    @bounded(200)
    @given(st.integers(1, 40), st.integers(1, 9))
    def test_bounds(self, size, parts):
        chunks = [chunk.tolist() for chunk in torch.arange(size).chunk(parts)]
        chunks += [[]] * (parts - len(chunks))
        self.assertEqual([list(range(*bounds(size, parts, place))) for place in range(parts)], chunks)

    def test_by_hand(self):
        whole = np.arange(12.0).reshape(4, 3)
        self.assertEqual([coordinate(rank, (2, 2)) for rank in range(4)], [(0, 0), (0, 1), (1, 0), (1, 1)])
        # Rank 2 is in the second row of the mesh and the first column.
        self.assertEqual(cut(whole, 2, (2, 2), (Shard(0), Shard(1))), np.array([[6.0, 7.0], [9.0, 10.0]]))
        self.assertEqual(cut(whole, 2, (2, 2), (Shard(0), Shard(0))), np.array([[6.0, 7.0, 8.0]]))
        self.assertEqual(cut(whole, 2, (2, 2), (Replicate(), Shard(0))), whole[:2])
        self.assertEqual(cut(whole, 3, (4,), (Shard(1),)).shape, (4, 0))

    def test_partial(self):
        parts = [small_numbers(index, (3, 2)) for index in range(2)]
        for reduction, expected in {
            "sum": parts[0] + parts[1],
            "avg": (parts[0] + parts[1]) / 2,
            "max": np.maximum(*parts),
            "min": np.minimum(*parts),
            "product": parts[0] * parts[1],
        }.items():
            pieces = Pieces((2, 2), (3, 2), (Partial(reduction), Shard(0)))
            self.assertEqual(pieces.whole, expected)
            # Ranks 1 and 3 hold the last row, of one summand and of the other.
            self.assertEqual([pieces.of(1), pieces.of(3)], [parts[0][2:], parts[1][2:]])
        self.assertEqual({*REDUCTIONS}, {"sum", "avg", "max", "min", "product"})

    @bounded(100)
    @given(layouts(4, partial=("sum",)))
    def test_what_ranks_hold_is_the_whole(self, layout):
        # Each element of the whole is as often on the ranks as the dimensions that replicate say.
        pieces = Pieces(layout.mesh_shape, layout.shape, layout.placements)
        copies = [
            ranks
            for ranks, placement in zip(layout.mesh_shape, layout.placements, strict=True)
            if placement == Replicate()
        ]
        held = sum(float(pieces.of(rank).sum()) for rank in range(4))
        self.assertEqual(held, float(pieces.whole.sum()) * float(np.prod(copies, initial=1)))

    def test_numbers(self):
        drawn = {small_numbers(index, (7, 6)).tobytes() for index in range(16)}
        self.assertEqual(len(drawn), 16)
        self.assertEqual((small_numbers(0, (64,)).min(), small_numbers(0, (64,)).max()), (1.0, 16.0))


if __name__ == "__main__":
    run_tests()
