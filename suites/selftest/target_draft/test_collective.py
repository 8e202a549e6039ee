"""Tests what an operation of two ranks has to do; that it is tried for real is for ``test_cli``."""

from __future__ import annotations

import unittest
from unittest import mock

import torch

from harness.target_draft.collective import Attempt, numbers, reduced
from harness.target_draft.tries import DTYPES, REDUCIBLE


class ReducedTest(unittest.TestCase):
    """``reduced``: the arithmetic."""

    def test_table(self) -> None:
        """Of each kind of dtype some reductions, worked out by hand."""
        for dtype, reduction, expected in (
            ("float32", "sum", [3, 9, 10, 9]),
            ("float32", "avg", [1.5, 4.5, 5.0, 4.5]),
            ("int32", "avg", [1, 4, 5, 4]),
            ("int8", "max", [2, 6, 7, 5]),
            ("uint8", "band", [0, 2, 3, 4]),
            ("uint8", "bxor", [3, 5, 4, 1]),
            ("bool", "sum", [True, True, True, False]),
            ("bool", "product", [True, False, False, False]),
            ("float64", "premul_sum", [6, 18, 20, 18]),
            ("complex64", "sum", [3 + 5j, 9 + 11j, 10 + 12j, 9 + 11j]),
        ):
            with self.subTest(dtype, reduction=reduction):
                self.assertEqual(reduced(dtype, reduction), expected)

    def test_every_rank_counts(self) -> None:
        """No reduction of any dtype gives what one of the ranks holds: a part that is lost is seen."""
        for reduction, dtypes in REDUCIBLE.items():
            for dtype in dtypes:
                with self.subTest(reduction, dtype=dtype):
                    self.assertNotIn(reduced(dtype, reduction), [numbers(dtype, 0), numbers(dtype, 1)])

    def test_every_dtype_holds_the_numbers(self) -> None:
        """The numbers of each dtype are exact in it, and the ranks' differ."""
        for dtype in DTYPES:
            with self.subTest(dtype):
                held = [torch.tensor(numbers(dtype, rank)) for rank in (0, 1)]
                wide = held[0].dtype
                for each in held:
                    self.assertEqual(each.to(getattr(torch, dtype)).to(wide).tolist(), each.tolist())
                self.assertNotEqual(*(each.tolist() for each in held))


class AttemptTest(unittest.TestCase):
    """``Attempt``: the comparison."""

    def test_wrong(self) -> None:
        """A collective that does nothing is wrong, and one that does its work is not."""
        one = Attempt(0, torch.device("cpu"), "float32", "sum")

        def right(tensor: torch.Tensor, op: object) -> None:
            tensor += torch.tensor(numbers("float32", 1))

        with mock.patch("torch.distributed.all_reduce", right):
            one.run("all_reduce")
        with mock.patch("torch.distributed.all_reduce"), self.assertRaisesRegex(AssertionError, "is right"):
            one.run("all_reduce")


if __name__ == "__main__":
    unittest.main()
