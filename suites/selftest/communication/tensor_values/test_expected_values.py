"""Tests what members must get, and how far it may be off."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np

from harness.communication.tensor_values.expected_values import ExpectedValues, expected_of
from suites.selftest.communication.value_samples import tensor, values

INFINITE, NAN = float("inf"), float("nan")


def expected(operation: str, *given: Any, dtype: str = "float32", **fields: Any) -> ExpectedValues | None:
    """What members 0, 1, ... must get, who give one tensor each."""
    members = tuple(range(len(given)))
    factors = fields.pop("factors", (None,) * len(given))
    return expected_of(
        [
            values(
                operation, [tensor(each, dtype)], [tensor(each, dtype)], members=members, factor=f, **fields
            )
            for each, f in zip(given, factors, strict=True)
        ]
    )


class ExpectedTest(unittest.TestCase):
    """The numbers of a reduction."""

    def numbers(self, *given: Any, **fields: Any) -> tuple[list[Any], list[float] | None]:
        """What member 0 must get of an all_reduce, and the bound."""
        found = expected("all_reduce", *given, **fields)
        assert found is not None
        bound = found.bound[0][0].tolist() if found.bound is not None else None
        return found.got[0][0].tolist(), bound

    def test_sums(self) -> None:
        """A sum may be off by its dtype's rounding of each term's size, cancelled or not."""
        numbers, bound = self.numbers([3.0, 1e6], [4.0, -1e6], reduce_op="SUM")
        self.assertEqual(numbers, [7.0, 0.0])
        np.testing.assert_allclose(bound or (), [2 * 7 * 2**-23, 2 * 2e6 * 2**-23])
        _, half = self.numbers([3.0], [4.0], reduce_op="SUM", dtype="float16")
        np.testing.assert_allclose(half or (), [2 * 7 * 2**-10], rtol=1e-4)

    def test_other_operations(self) -> None:
        """Means and products round too; least and greatest numbers do not."""
        self.assertEqual(self.numbers([3.0], [4.0], reduce_op="AVG")[0], [3.5])
        self.assertEqual(self.numbers([3.0], [4.0], reduce_op="PRODUCT")[0], [12.0])
        for op, least in (("MIN", 3.0), ("MAX", 4.0)):
            self.assertEqual(self.numbers([3.0], [4.0], reduce_op=op), ([least], None))
        scaled = self.numbers([3.0], [4.0], reduce_op="PREMUL_SUM", factors=(2.0, 10.0))
        self.assertEqual(scaled[0], [46.0])

    def test_integers(self) -> None:
        """Integers and booleans are exact, and wrap around."""
        self.assertEqual(self.numbers([100], [100], reduce_op="SUM", dtype="int8"), ([-56], None))
        self.assertEqual(self.numbers([True], [True], reduce_op="SUM", dtype="bool"), ([True], None))

    def test_out_of_range(self) -> None:
        """Where some order of the terms leaves the range, anything may come out; of NaN only NaN."""
        for op, terms, bound in (
            ("SUM", ([2e38], [2e38]), INFINITE),
            ("SUM", ([INFINITE], [1.0]), INFINITE),
            ("SUM", ([NAN], [1.0]), NAN),
            ("AVG", ([2e38], [2e38]), INFINITE),
            ("PRODUCT", ([1e30], [1e30], [1e-40]), INFINITE),
            ("PRODUCT", ([1e-30], [1e-30], [1e30]), INFINITE),
        ):
            with self.subTest(op, terms=terms):
                _, found = self.numbers(*terms, reduce_op=op)
                np.testing.assert_equal(found, [bound])
        _, found = self.numbers([0.0], [4.0], reduce_op="PRODUCT")
        self.assertLess((found or [1.0])[0], 1e-30)

    def test_default_operation(self) -> None:
        """A reduction that names no operation is a sum, as torch's options have it."""
        found = expected("reduce_scatter_tensor", [1, 2], [3, 4], dtype="int32")
        assert found is not None
        self.assertEqual({m: each[0].tolist() for m, each in found.got.items()}, {0: [4], 1: [6]})

    def test_no_reference(self) -> None:
        """Unknown operations, means of integers, factors that nobody knows, several dtypes."""
        for found in (
            expected("juggle", [1.0]),
            expected("all_reduce", [1], [2], reduce_op="AVG", dtype="int32"),
            expected("all_reduce", [1.0], [2.0], reduce_op="PREMUL_SUM"),
            expected_of([values("all_reduce", [tensor([1.0])], [tensor([1], "int32")], members=(0,))]),
        ):
            self.assertIsNone(found)


class MovedTest(unittest.TestCase):
    """What is moved."""

    def test_bytes(self) -> None:
        """It is known by its bytes, whatever the dtype is, and a part may be empty."""
        found = expected("all_gather_into_tensor", [], [1.0, NAN], [2.0])
        assert found is not None
        self.assertTrue(found.moved)
        (whole,) = found.got[0]
        self.assertEqual(whole.tobytes(), np.array([1.0, NAN, 2.0], "float32").tobytes())

    def test_roots_and_parts(self) -> None:
        """The root is a global rank of the signature; ``sent`` has the parts of each member."""
        root = [values("broadcast", [tensor([n])], [tensor([n])], members=(4, 7), root=7) for n in (1.0, 2.0)]
        found = expected_of(root)
        assert found is not None
        self.assertEqual(found.got[0][0].tobytes(), tensor([2.0]).data)
        parts = [
            values("all_to_all_single", [tensor(n)], [tensor(n)], members=(0, 1), sent=sent)
            for n, sent in (([1.0, 2.0], (0, 2)), ([3.0], (1, 0)))
        ]
        found = expected_of(parts)
        assert found is not None
        self.assertEqual(found.got[1][0].tobytes(), tensor([1.0, 2.0]).data)


if __name__ == "__main__":
    unittest.main()
