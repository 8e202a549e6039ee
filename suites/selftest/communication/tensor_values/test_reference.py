"""Tests the numpy reference of collectives with numbers that were worked out by hand."""

from __future__ import annotations

import unittest
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.communication.tensor_values.reference import Collective, combined, results

MINE, YOURS = [1, 2], [10, 20]
ONE_EACH = ((MINE,), (YOURS,))
TWO_EACH = (([1, 2], [3, 4]), ([10, 20], [30, 40]))


def computed(
    operation: str, given: Sequence[Sequence[Sequence[int]]], **fields: Any
) -> Mapping[int, list[list[int]]]:
    """The results of a collective of two members."""
    arrays = [[np.array(each) for each in mine] for mine in given]
    found = results(Collective(operation, **fields), arrays)
    return {member: [each.tolist() for each in mine] for member, mine in found.items()}


class ResultsTest(unittest.TestCase):
    """What each of two members gets."""

    def both(self, *tensors: list[int]) -> dict[int, list[list[int]]]:
        """The same for both members."""
        return {0: [*tensors], 1: [*tensors]}

    def test_table(self) -> None:
        """Every operation, with the numbers of two members."""
        rows: tuple[tuple[str, Any, dict[str, Any], Any], ...] = (
            ("all_reduce", ONE_EACH, {}, self.both([11, 22])),
            ("all_reduce", ONE_EACH, {"op": "max"}, self.both([10, 20])),
            ("all_reduce_coalesced", TWO_EACH, {}, self.both([11, 22], [33, 44])),
            ("broadcast", ONE_EACH, {"root": 1}, self.both(YOURS)),
            ("reduce", ONE_EACH, {"root": 1, "op": "product"}, {1: [[10, 40]]}),
            ("all_gather", ONE_EACH, {}, self.both(MINE, YOURS)),
            ("all_gather_coalesced", TWO_EACH, {}, self.both([1, 2], [3, 4], [10, 20], [30, 40])),
            ("all_gather_into_tensor", ONE_EACH, {}, self.both([1, 2, 10, 20])),
            ("all_gather_into_tensor_coalesced", TWO_EACH, {}, self.both([1, 2, 10, 20], [3, 4, 30, 40])),
            ("gather", ONE_EACH, {"root": 0}, {0: [MINE, YOURS]}),
            ("scatter", TWO_EACH, {"root": 1}, {0: [[10, 20]], 1: [[30, 40]]}),
            ("reduce_scatter", TWO_EACH, {}, {0: [[11, 22]], 1: [[33, 44]]}),
            ("reduce_scatter_tensor", ONE_EACH, {}, {0: [[11]], 1: [[22]]}),
            ("reduce_scatter_tensor_coalesced", TWO_EACH, {}, {0: [[11], [33]], 1: [[22], [44]]}),
            ("all_to_all", TWO_EACH, {}, {0: [[1, 2], [10, 20]], 1: [[3, 4], [30, 40]]}),
            ("all_to_all_single", ONE_EACH, {}, {0: [[1, 10]], 1: [[2, 20]]}),
            ("barrier", ((), ()), {}, {}),
        )
        for operation, given, fields, expected in rows:
            with self.subTest(operation, **fields):
                self.assertEqual(computed(operation, given, **fields), expected)

    def test_uneven_parts(self) -> None:
        """``parts`` are lengths by sender, to each member; one may be 0."""
        parts = ((0, 2), (3, 1))
        found = computed("all_to_all_single", ((MINE,), ([5, 6, 7, 8],)), parts=parts)
        self.assertEqual(found, {0: [[5, 6, 7]], 1: [[1, 2, 8]]})

    def test_refused(self) -> None:
        """What is no operation, and what cannot be split."""
        with self.assertRaises(KeyError):
            computed("juggle", ONE_EACH)
        with self.assertRaises(ValueError):
            computed("reduce_scatter_tensor", (([1, 2, 3],), ([1, 2, 3],)))

    def test_combined(self) -> None:
        """Integers wrap around, booleans are logical, and a mean keeps its type."""
        big = np.array([100], np.int8)
        self.assertEqual(combined("sum", [big, big]).tolist(), [-56])
        true = np.array([True])
        self.assertEqual(combined("sum", [true, true]).tolist(), [True])
        mean = combined("avg", [np.array([n], np.float32) for n in (1, 2)])
        self.assertEqual((mean.tolist(), mean.dtype.name), ([1.5], "float32"))


if __name__ == "__main__":
    unittest.main()
