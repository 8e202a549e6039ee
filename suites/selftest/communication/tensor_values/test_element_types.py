"""Tests how bytes of tensors become numbers, by torch's own numbers."""

from __future__ import annotations

import unittest

import numpy as np
import torch

from harness.communication.tensor_values import element_types
from harness.communication.tensor_values.element_types import (
    EPSILON,
    is_exact,
    numbers,
    rows_of_bytes,
    same_width,
)

WHOLE = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NARROW = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float16", "bfloat16")


def rows(tensor: torch.Tensor) -> element_types.Array:
    """The elements of a tensor of one dimension as rows of bytes."""
    found: element_types.Array = tensor.view(torch.uint8).reshape(len(tensor), -1).numpy()
    return found


class NumbersTest(unittest.TestCase):
    """What ``numbers`` makes of bytes."""

    def test_every_narrow_number(self) -> None:
        """Every bit pattern of an 8-bit or 16-bit dtype is torch's number, NaNs and infinities among them."""
        for name in NARROW:
            dtype = getattr(torch, name)
            codes = torch.arange(256).to(torch.uint8)
            if dtype.itemsize == 2:
                codes = torch.arange(2**16, dtype=torch.int32).to(torch.uint16)
            tensor = codes.view(dtype)
            with self.subTest(name):
                found = numbers(rows(tensor), name)
                np.testing.assert_array_equal(found, tensor.to(torch.float64).numpy())

    def test_other_dtypes(self) -> None:
        """Integers and booleans keep their type; the rest is float64 or complex128."""
        for name in WHOLE:
            tensor = torch.tensor([0, 1, 100]).to(getattr(torch, name))
            found = numbers(rows(tensor), name)
            with self.subTest(name):
                assert found is not None
                self.assertEqual(found.dtype.name, name)
                self.assertEqual(found.tolist(), tensor.tolist())
                self.assertTrue(is_exact(name))
        for name in ("float32", "float64"):
            found = numbers(rows(torch.tensor([1.5, -2.0], dtype=getattr(torch, name))), name)
            assert found is not None
            self.assertEqual((found.dtype.name, found.tolist()), ("float64", [1.5, -2.0]))
        parts = torch.tensor([1.5, -2.0, 0.0, 4.0])
        for name, part in (("complex32", torch.float16), ("complex64", torch.float32)):
            found = numbers(parts.to(part).view(torch.uint8).numpy().reshape(2, -1), name)
            assert found is not None
            self.assertEqual((found.dtype.name, found.tolist()), ("complex128", [1.5 - 2j, 4j]), name)

    def test_unknown(self) -> None:
        """A dtype that nobody calculates with is known by its bytes alone."""
        self.assertIsNone(numbers(rows_of_bytes(b"\1\2", 2), "float8_e8m0fnu"))

    def test_no_elements(self) -> None:
        """A tensor without elements has no numbers, and its rows fit those of the other tensors."""
        for name in ("float32", "bfloat16", "complex64", "complex32", "bool", "float8_e5m2"):
            found = numbers(rows_of_bytes(b"", 0), name)
            assert found is not None
            self.assertEqual(found.shape, (0,), name)
        widths = [each.shape for each in same_width([rows_of_bytes(b"", 0), rows_of_bytes(b"12345678", 2)])]
        self.assertEqual(widths, [(0, 4), (2, 4)])


class LimitsTest(unittest.TestCase):
    """What is said of a dtype's precision and range."""

    def test_by_torch(self) -> None:
        """Epsilon and the largest number are torch's, where torch's epsilon is that of all numbers."""
        for name in EPSILON:
            dtype = getattr(torch, name)
            with self.subTest(name):
                info = torch.finfo(dtype)
                self.assertEqual(element_types.largest(name), info.max)
                self.assertGreaterEqual(EPSILON[name], info.eps)
                self.assertLessEqual(element_types.least(name), info.tiny)
                self.assertFalse(is_exact(name))


if __name__ == "__main__":
    unittest.main()
