"""``different``: the differences between the snapshots of two tensors, as text."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from torch.testing._internal.two_tensor import TwoTensor

from harness import TestCase
from harness.graphs.differences import Tolerance, different
from harness.graphs.snapshots import snapshot


class SnapshotTest(TestCase):
    """``different`` on the snapshots of two tensors."""

    def told(self, eager: torch.Tensor, compiled: torch.Tensor, **options: Any) -> list[str]:
        """The texts of the differences between two tensors."""
        return list(different(snapshot(eager), snapshot(compiled), Tolerance(), **options))

    def test_equal(self) -> None:
        """Equal tensors do not differ, also with NaN, without elements or data, or in unused strides."""
        gone = torch.zeros(3)
        gone.untyped_storage().resize_(0)
        for eager, compiled in (
            (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")])),
            (torch.empty(0, 3), torch.empty(3, 0).t()),
            (torch.ones(3, 1), torch.ones(1, 3).t()),
            (gone, gone),
            (torch.tensor([1 + 1j]).conj(), torch.tensor([1 - 1j])),
            (torch.eye(2).to_sparse(), torch.eye(2).to_sparse()),
            (torch.tensor([1.0]), torch.tensor([1.0 + 1e-7])),
        ):
            self.assertEqual(self.told(eager, compiled, placed=False), [])

    def test_unlike(self) -> None:
        """Each kind of difference has its text; that for values has the first element that differs."""
        gone = torch.zeros(3)
        gone.untyped_storage().resize_(0)
        base = torch.zeros(4)
        for eager, compiled, *texts in (
            (
                torch.tensor([1, 2]),
                torch.tensor([1, 3]),
                "values differ: at [1] 3 compiled, 2 in eager (1 of 2 elements)",
            ),
            (torch.tensor(True), torch.tensor(False), "values differ: False compiled, True in eager"),
            (torch.tensor([1j]), torch.tensor([2j]), "values differ: at [0] 2j compiled, 1j in eager"),
            (torch.zeros(3), gone, "storage_bytes 0 compiled, 12 in eager", "has no data compiled"),
            (base[1:3], base[:2], "storage_offset 0 compiled, 1 in eager"),
            (
                torch.zeros(2),
                torch.zeros(3),
                "shape (3,) compiled, (2,) in eager",
                "storage_bytes 12 compiled, 8 in eager",
            ),
            (torch.eye(2), torch.eye(2).to_sparse(), "layout sparse_coo compiled, strided in eager"),
            (torch.zeros(2), torch.zeros(2, device="meta"), "device meta compiled, cpu in eager"),
            (
                torch.tensor([0.0]),
                torch.tensor([float("nan")]),
                "values differ: at [0] nan compiled, 0.0 in eager",
            ),
        ):
            said = self.told(eager, compiled)
            for text in texts:
                self.assertTrue(any(line.startswith(text) for line in said), (text, said))

    def test_place(self) -> None:
        """The place in the storage is compared only with ``placed``."""
        base = torch.zeros(4)
        self.assertEqual(self.told(base[1:3], base[:2], placed=False), [])

    def test_subclasses(self) -> None:
        """A difference in a wrapper subclass names the part, at any depth."""
        one, other = torch.ones(2), torch.zeros(2)
        self.assertEqual(self.told(TwoTensor(one, one), TwoTensor(one, one.clone())), [])
        deep = [TwoTensor(TwoTensor(one, one), TwoTensor(one, last)) for last in (one, other)]
        self.assertEqual(
            self.told(*deep),
            ["its part .b.b has values differ: at [0] 0.0 compiled, 1.0 in eager (2 of 2 elements)"],
        )
        (text,) = [line for line in self.told(TwoTensor(one, one), one) if line.startswith("type")]
        self.assertEqual(text, "type Tensor compiled, TwoTensor in eager")

    def test_invalid_view(self) -> None:
        """A view for which autograd raises an error differs by that error."""
        base = torch.ones(2, requires_grad=True) * 1
        with torch.no_grad():
            view = base[1:]
        base.mul_(2)
        said = self.told(torch.ones(1, requires_grad=True), view)
        self.assertTrue(any("A view was created in no_grad mode" in line for line in said), said)


if __name__ == "__main__":
    unittest.main()
