"""The reference and the inputs themselves: right by hand-worked numbers, and able to tell faults apart.

No ranks and no process groups. A wrong reference would fail every backend; a weak input would pass a broken
one, so each fault that the suite must catch is tried here on the reference alone.
"""

from __future__ import annotations

import sys
from itertools import combinations, product
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import numpy as np
import torch

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.c10d import reference
from suites.c10d.inputs import BLANK, DTYPES_OF_OP, EVERYTHING, FLOAT8, REFUSED, Case, every_case

WORLD_SIZES = (2, 3, 4)
#: These have fewer values than there are origins, and need several elements to name one.
COARSE = (torch.bool, *FLOAT8)


class ReferenceTest(TestCase):
    """The collectives on numbers that can be checked by eye."""

    held = (np.array([1, 6]), np.array([3, 5]), np.array([7, 4]))

    def same(self, actual, expected):
        self.assertEqual(np.array(actual).tolist(), expected)

    def test_reductions(self):
        for op, expected in {
            "sum": [11, 15],
            "product": [21, 120],
            "min": [1, 4],
            "max": [7, 6],
            "band": [1, 4],
            "bor": [7, 7],
            "bxor": [5, 7],
        }.items():
            with self.subTest(op=op):
                self.same(reference.all_reduce(self.held, op), [expected] * 3)

    def test_avg(self):
        self.same(reference.combine([np.array([1.0, 2j]), np.array([2.0, 4j])], "avg"), [1.5, 3j])
        self.same(reference.combine([np.array([1, -4]), np.array([2, -1])], "avg"), [1, -2])

    def test_reductions_of_booleans(self):
        held = [np.array([False, False, True, True]), np.array([False, True, False, True])]
        both, either, one = [False, False, False, True], [False, True, True, True], [False, True, True, False]
        for op, expected in {"sum": either, "product": both, "min": both, "max": either, "bxor": one}.items():
            with self.subTest(op=op):
                self.same(reference.combine(held, op), expected)

    def test_sum_keeps_the_dtype_and_wraps(self):
        total = reference.combine([np.array([100], np.int8), np.array([100], np.int8)], "sum")
        self.assertEqual((total.dtype, total.tolist()), (np.dtype(np.int8), [-56]))

    def test_broadcast(self):
        self.same(reference.broadcast(self.held, 1), [[3, 5]] * 3)

    def test_reduce(self):
        self.assertEqual(
            [None if r is None else r.tolist() for r in reference.reduce(self.held, 1, "sum")],
            [None, [11, 15], None],
        )

    def test_gathers(self):
        lists = [[1, 6], [3, 5], [7, 4]]
        self.same(reference.all_gather(self.held), [lists] * 3)
        self.same(reference.all_gather_into_tensor(self.held), [[1, 6, 3, 5, 7, 4]] * 3)
        self.same(reference.gather(self.held, 2)[2], lists)
        self.assertEqual(reference.gather(self.held, 2)[:2], [None, None])

    def test_scatters(self):
        self.same(reference.scatter(self.held), [[1, 6], [3, 5], [7, 4]])
        parts = [[np.array([10 * member + part]) for part in range(2)] for member in range(2)]
        self.same(reference.reduce_scatter(parts, "sum"), [[10], [12]])
        held = [np.array([1, 2, 3, 4]), np.array([10, 20, 30, 40])]
        self.same(reference.reduce_scatter_tensor(held, "sum"), [[11, 22], [33, 44]])

    def test_all_to_all(self):
        parts = [[np.array([10 * member + part]) for part in range(2)] for member in range(2)]
        self.same(reference.all_to_all(parts), [[[0], [10]], [[1], [11]]])

    def test_all_to_all_single(self):
        received = reference.all_to_all_single([np.array([1, 2, 3]), np.array([4, 5])], [[1, 2], [2, 0]])
        self.assertEqual([r.tolist() for r in received], [[1, 4, 5], [2, 3]])


class InputsTest(TestCase):
    """The inputs make the faults of the suite's business visible."""

    def test_labels_name_their_origin(self):
        # Wrong source, shifted part, swapped ranks: whatever goes elsewhere shows.
        for dtype in (*EVERYTHING, *REFUSED):
            case = Case(dtype)
            tensors = {
                origin: case.tensor(case.label(*origin), torch.device("cpu")).to(torch.complex128)
                for origin in product(range(4), range(4))
            }
            for one, other in combinations(tensors, 2):
                with self.subTest(dtype=str(dtype), one=one, other=other):
                    differ = tensors[one] != tensors[other]
                    self.assertTrue(differ.any() if dtype in COARSE else differ.all())

    def test_no_label_is_blank(self):
        for dtype in (d for d in EVERYTHING if d != torch.bool):
            with self.subTest(dtype=str(dtype)):
                self.assertFalse((np.stack([Case(dtype).label(rank) for rank in range(4)]) == BLANK).any())

    def test_every_term_counts(self):
        # all_reduce that is the identity, or that drops the part of one rank.
        for op, world_size in product(DTYPES_OF_OP, WORLD_SIZES):
            for dtype in DTYPES_OF_OP[op]:
                held = [Case(dtype).term(op, rank) for rank in range(world_size)]
                whole = reference.combine(held, op)
                for rank in range(world_size):
                    with self.subTest(op=op, dtype=str(dtype), world_size=world_size, rank=rank):
                        self.assertFalse(np.array_equal(whole, held[rank]))
                        rest = reference.combine(held[:rank] + held[rank + 1 :], op)
                        self.assertFalse(np.array_equal(whole, rest))

    def test_operations_differ(self):
        # all_reduce that averages where it should sum, or takes any one operation for another.
        for world_size, dtype in product(WORLD_SIZES, (torch.float32, torch.int32, torch.complex64)):
            ops = [op for op in DTYPES_OF_OP if dtype in DTYPES_OF_OP[op]]
            for right, wrong in combinations(ops, 2):
                with self.subTest(dtype=str(dtype), world_size=world_size, right=right, wrong=wrong):
                    held = [Case(dtype).term(right, rank) for rank in range(world_size)]
                    results = [reference.combine(held, op) for op in (right, wrong)]
                    self.assertFalse(np.array_equal(*results))

    def test_parts_differ(self):
        # reduce_scatter that hands out its parts in another order.
        for op, world_size in product(DTYPES_OF_OP, WORLD_SIZES):
            for dtype in DTYPES_OF_OP[op]:
                parts = [
                    [Case(dtype).term(op, rank, part) for part in range(world_size)]
                    for rank in range(world_size)
                ]
                for one, other in combinations(reference.reduce_scatter(parts, op), 2):
                    with self.subTest(op=op, dtype=str(dtype), world_size=world_size):
                        self.assertFalse(np.array_equal(one, other))

    def test_cases(self):
        cases = list(every_case(*EVERYTHING))
        self.assertEqual({case.dtype for case in cases}, set(EVERYTHING))
        self.assertEqual({0, 1, 2, 3}, {len(case.shape) for case in cases})
        layouts = [case.tensor(case.label(0), torch.device("cpu")).is_contiguous() for case in cases]
        self.assertEqual(layouts.count(False), 1)


if __name__ == "__main__":
    run_tests()
