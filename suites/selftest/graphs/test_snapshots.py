"""``TensorSnapshot``: the metadata and values that it keeps, whatever happens to the tensor later."""

from __future__ import annotations

import unittest

import torch
from torch.testing._internal.two_tensor import TwoTensor

from harness import TestCase
from harness.graphs.snapshots import reach, snapshot, snapshots


def freed() -> torch.Tensor:
    """A tensor whose storage was resized to nothing."""
    tensor = torch.zeros(3)
    tensor.untyped_storage().resize_(0)
    return tensor


class SnapshotTest(TestCase):
    """The functions ``snapshot`` and ``snapshots``."""

    def test_metadata(self) -> None:
        """The metadata tell how the tensor lies in its storage and whether autograd tracks it."""
        kept = snapshot(torch.zeros(4, 3, requires_grad=True)[1:, :1]).metadata
        expected = {
            "type": torch.Tensor,
            "dtype": torch.float32,
            "device": torch.device("cpu"),
            "layout": torch.strided,
            "shape": (3, 1),
            "requires_grad": True,
            "is_leaf": False,
            "stride": (3, None),
            "storage_offset": 3,
            "storage_bytes": 48,
        }
        self.assertEqual(kept, expected)
        self.assertEqual(snapshot(torch.eye(2).to_sparse()).metadata["layout"], torch.sparse_coo)

    def test_strides(self) -> None:
        """Strides that have no effect are None: where the size is 1, and in an empty tensor."""
        for tensor, stride in (
            (torch.ones(2, 3), (3, 1)),
            (torch.ones(2, 1), (1, None)),
            (torch.ones(2, 0), (None, None)),
            (torch.tensor(1), ()),
        ):
            self.assertEqual(snapshot(tensor).metadata["stride"], stride)

    def test_values(self) -> None:
        """Values are a plain, dense copy without conjugate and negative bits."""
        for tensor, expected in (
            (torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j])),
            (torch.tensor([1j]).conj().imag, torch.tensor([-1.0])),
            (torch.nn.Parameter(torch.ones(2)), torch.ones(2)),
            (torch.eye(2).to_sparse(), torch.eye(2)),
        ):
            values = snapshot(tensor).values
            assert values is not None
            self.assertEqual(values, expected)
            self.assertEqual((type(values), values.layout), (torch.Tensor, torch.strided))
            self.assertFalse(values.requires_grad or values.is_conj() or values.is_neg())

    def test_no_data(self) -> None:
        """Values are None if the storage does not hold them."""
        for tensor in (freed(), torch.ones(2, device="meta")):
            self.assertIsNone(snapshot(tensor).values)
        half = torch.ones(4)
        half.untyped_storage().resize_(8)
        self.assertIsNone(snapshot(half).values)
        self.assertEqual(snapshot(half[:2]).values, torch.ones(2))
        self.assertEqual(snapshot(freed()[:0]).values, torch.empty(0))

    def test_later_writes(self) -> None:
        """A write to the tensor does not change the snapshot, whatever the layout."""
        for tensor in (torch.ones(2), torch.eye(2).to_sparse()):
            kept = snapshot(tensor).values
            tensor.zero_()
            assert kept is not None
            self.assertTrue(kept.any())

    def test_subclasses(self) -> None:
        """A wrapper subclass is kept by its parts, without values or storage metadata of its own."""
        kept = snapshot(TwoTensor(torch.ones(2), torch.zeros(2)))
        self.assertIsNone(kept.values)
        self.assertNotIn("storage_bytes", kept.metadata)
        self.assertEqual(
            {name: part.values for name, part in kept.parts.items()},
            {"a": torch.ones(2), "b": torch.zeros(2)},
        )

    def test_invalid_view(self) -> None:
        """Where autograd refuses to tell whether a view requires grad, its error is kept."""
        base = torch.ones(2, requires_grad=True) * 1
        with torch.no_grad():
            view = base[1:]
        base.mul_(2)
        self.assertRegex(snapshot(view).metadata["requires_grad"], r"^refused \(.*no_grad")

    def test_lazy_parameters(self) -> None:
        """A lazy module's parameters have no size yet and are left out."""
        lazy = torch.nn.LazyLinear(2)
        self.assertEqual(list(snapshots([("x", torch.ones(1)), ("weight", lazy.weight)])), ["x"])


class ReachTest(unittest.TestCase):
    """The function ``reach``, on views of a storage."""

    def test_elements(self) -> None:
        """The reach counts from the start of the storage to the tensor's last element."""
        x = torch.zeros(12)
        for tensor, count in (
            (x, 12),
            (x[3:5], 5),
            (x[::4], 9),
            (x.view(3, 4).t()[1:2], 10),
            (x[:1].expand(5), 1),
            (x[5:5], 0),
        ):
            self.assertEqual(reach(tensor), count)


if __name__ == "__main__":
    unittest.main()
