"""``aliases_of``: shared memory, views and identity among inputs and outputs."""

from __future__ import annotations

import unittest

import torch
from torch.testing._internal.two_tensor import TwoTensor

from harness.graphs.aliasing import aliases_of, overlaps_otherwise


class AliasTest(unittest.TestCase):
    """The function ``aliases_of``, on tensors that share memory."""

    def test_aliases(self) -> None:
        """Shared memory is found among all tensors, views only where there is grad, identity by ``is``."""
        base = torch.ones(2, 2, requires_grad=True) * 1
        other = torch.ones(2)
        found = aliases_of(
            [("a", base), ("b", base.detach()), ("c", other)],
            [("row", base[0]), ("again", base), ("sparse", torch.eye(2).to_sparse()), ("tail", other[1:])],
        )
        self.assertEqual(found["a"].memory, ("b",))
        self.assertEqual(found["c"].memory, ())
        self.assertEqual(found["row"].memory, ("a", "b", "again"))
        self.assertEqual(found["row"].views, ("a", "again"))
        self.assertEqual(found["again"].same, ("a",))
        self.assertEqual(found["sparse"].memory, ())
        self.assertEqual((found["tail"].memory, found["tail"].views), (("c",), ()))

    def test_overlaps(self) -> None:
        """Of two tensors that are not one and the same view: a row and a column, but no two rows."""
        table = torch.zeros(3, 3)
        row, column = table[1], table[:, 0]
        for one, other, expected in (
            (row, column, True),
            (table, table.t(), True),
            (row, table[1:], True),
            (row, table[2], False),
            (row, table[1], False),
            (column, table[:, 1], False),
            (row, torch.zeros(3), False),
        ):
            with self.subTest(one=one.shape, other=other.stride()):
                self.assertIs(overlaps_otherwise(one, other), expected)

    def test_subclasses(self) -> None:
        """A wrapper subclass shares the memory that its parts share."""
        x = torch.ones(2)
        found = aliases_of([("a", TwoTensor(x, torch.zeros(2)))], [("x", x), ("y", torch.ones(2))])
        self.assertEqual((found["x"].memory, found["y"].memory), (("a",), ()))


if __name__ == "__main__":
    unittest.main()
