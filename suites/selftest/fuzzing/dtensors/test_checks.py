"""Tests the comparison of a DTensor with a plain tensor, by stand-ins for DTensors."""

from __future__ import annotations

import unittest
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch.distributed.tensor import Partial, Shard

from harness.fuzzing.dtensors.checks import close, difference, loss_of, misfit


@dataclass(frozen=True)
class Distributed:
    """What is read of a DTensor; on a mesh of two ranks."""

    shape: torch.Size = field(default_factory=lambda: torch.Size((4,)))
    dtype: torch.dtype = torch.float64
    requires_grad: bool = False
    placements: tuple[Any, ...] = (Shard(0),)
    device_mesh: Any = field(default_factory=lambda: SimpleNamespace(shape=(2,)))


PLAIN = torch.arange(4, dtype=torch.float64)


class ChecksTest(unittest.TestCase):
    def test_misfit(self) -> None:
        """None, a plain tensor, and each property that differs."""
        right = Distributed()
        self.assertEqual(misfit("v1", right, PLAIN), "")
        self.assertEqual(misfit("v1", None, None), "")
        for got, text in (
            (None, "v1 is NoneType, but Tensor in plain"),
            (PLAIN, "v1 is no DTensor, but a Tensor"),
            (replace(right, shape=torch.Size((2,))), r"shape of v1 differs: torch.Size\(\[2\]\), but"),
            (replace(right, dtype=torch.float32), "dtype of v1 differs"),
            (replace(right, requires_grad=True), "requires_grad of v1 differs"),
        ):
            with self.subTest(text):
                self.assertRegex(misfit("v1", got, PLAIN), text)

    def test_difference(self) -> None:
        """The whole is compared with the whole, and a shard with the rank's part of it."""
        got, part = Distributed(), PLAIN[2:]
        self.assertEqual(difference("v1", PLAIN, part, PLAIN, 1, got), "")
        for whole, own, text in (
            (PLAIN + 1, part, "^value of v1 differs"),
            (PLAIN[:2], part, "^shape of v1.full_tensor"),
            (PLAIN, PLAIN[:2], "^shard of v1 differs"),
            (PLAIN, PLAIN, "^shard of v1 differs"),
        ):
            with self.subTest(text):
                self.assertRegex(difference("v1", whole, own, PLAIN, 1, got), text)
        partial = replace(got, placements=(Partial(),))
        self.assertEqual(difference("v1", PLAIN, PLAIN * 9, PLAIN, 1, partial), "")

    def test_close(self) -> None:
        """float64 is compared more exactly than float32, and NaN is never right."""
        off = PLAIN + 9e-5
        self.assertFalse(close(off, PLAIN))
        self.assertTrue(close(off.float(), PLAIN.float()))
        self.assertFalse(close(PLAIN * float("nan"), PLAIN))
        self.assertFalse(close(torch.tensor(1), torch.tensor(2)))

    def test_loss(self) -> None:
        """Only what has a gradient counts."""
        self.assertIsNone(loss_of([PLAIN]))
        self.assertEqual(float(loss_of([PLAIN, (PLAIN[1:3] + 0).requires_grad_()]).detach()), 5.0)


if __name__ == "__main__":
    unittest.main()
