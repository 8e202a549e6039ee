"""Tests what ranks hold: that shards are torch.chunk's, and that the parts reduce to the whole."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from functools import reduce

import torch
from torch.distributed.tensor import Partial, Replicate, Shard

from harness.fuzzing.dtensors.placing import cut, held, numbers

REDUCED: dict[str, Callable[[list[torch.Tensor]], torch.Tensor]] = {
    "sum": lambda parts: reduce(torch.add, parts),
    "avg": lambda parts: reduce(torch.add, parts) / len(parts),
    "max": lambda parts: reduce(torch.maximum, parts),
    "min": lambda parts: reduce(torch.minimum, parts),
}


class PlacingTest(unittest.TestCase):
    def test_cut(self) -> None:
        """The pieces are those of chunk, and empty where chunk makes fewer."""
        for size in range(8):
            for parts in range(1, 5):
                with self.subTest(size=size, parts=parts):
                    whole = torch.arange(2 * size).reshape(2, size)
                    pieces = [cut(whole, 1, parts, place) for place in range(parts)]
                    self.assertTrue(torch.equal(torch.cat(pieces, 1), whole))
                    chunks = whole.chunk(parts, 1) if size else ()
                    for piece, chunk in zip(pieces, chunks, strict=False):
                        self.assertTrue(torch.equal(piece, chunk))

    def test_partial(self) -> None:
        """Parts differ by rank and reduce exactly to the whole, over two mesh dimensions too."""
        whole = numbers((3, 2), torch.float64, 1)
        for op, reduced in REDUCED.items():
            for shape in ((3,), (2, 3)):
                with self.subTest(op, shape=shape):
                    ranks = range(torch.Size(shape).numel())
                    parts = [held(whole, rank, shape, [Partial(op)] * len(shape)) for rank in ranks]
                    self.assertTrue(torch.equal(reduced(parts), whole))
                    self.assertFalse(torch.equal(parts[0], parts[-1]))

    def test_two_dimensions(self) -> None:
        """The second mesh dimension cuts the pieces of the first; ranks are numbered row by row."""
        whole = torch.arange(6)
        got = [held(whole, rank, (2, 2), [Shard(0), Shard(0)]).tolist() for rank in range(4)]
        self.assertEqual(got, [[0, 1], [2], [3, 4], [5]])
        got = [held(whole, rank, (2, 2), [Replicate(), Shard(0)]).tolist() for rank in range(4)]
        self.assertEqual(got, [[0, 1, 2], [3, 4, 5]] * 2)

    def test_numbers(self) -> None:
        """Numbers of a tensor differ, and so do those of two seeds; integers are indices of two rows."""
        one = numbers((8, 9), torch.float64, 0)
        self.assertEqual(len(one.unique()), 72)
        self.assertFalse(torch.equal(one, numbers((8, 9), torch.float64, 1)))
        self.assertEqual(set(numbers((9,), torch.int64, 0).tolist()), {0, 1})


if __name__ == "__main__":
    unittest.main()
