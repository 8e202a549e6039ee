"""Compares the numpy interpreter of programs with numbers that were worked out by hand."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
from hypothesis import given

from harness.communication.tensor_values.reference import combined
from harness.fuzzing import CollectiveStep, Message, Program, Straggler, programs
from harness.fuzzing.reference import (
    exact,
    fill,
    interpret,
    numpy_dtype,
    rows,
    splits,
)
from harness.hypothesis_examples import bounded

PAIR = (0, 2)
#: What ranks 0 and 2 give to step 0: labels for what is moved, terms for what is reduced.
LABELS = {0: [1, 2], 2: [63, 64]}
TERMS = {0: [1, 2], 2: [3, 4]}


class Results(unittest.TestCase):
    """The results of one step on ranks 0 and 2 of three."""

    def results(self, kind: str, **fields: Any) -> dict[int, list[Any]]:
        fields = {"dtype": "int32", **fields}
        known = interpret(Program(3, (CollectiveStep(kind, PAIR, **fields),)))
        for (_, rank), arrays in known.results.items():
            for array in arrays:
                self.assertEqual(array.dtype, numpy_dtype(fields["dtype"]), rank)
        return {rank: [array.tolist() for array in arrays] for (_, rank), arrays in known.results.items()}

    def test_what_ranks_give(self) -> None:
        for kind, given_by in (("all_gather", LABELS), ("all_reduce", TERMS)):
            known = interpret(Program(3, (CollectiveStep(kind, PAIR, dtype="int32"),)))
            for rank, numbers in given_by.items():
                self.assertEqual([each.tolist() for each in known.inputs[0, rank]], [numbers])

    def test_one_rank_s_data_for_all(self) -> None:
        self.assertEqual(self.results("broadcast", root=1), {0: [LABELS[2]], 2: [LABELS[2]]})
        self.assertEqual(self.results("scatter", root=1), {0: [[63, 64]], 2: [[71, 72]]})

    def test_all_ranks_data(self) -> None:
        both = [LABELS[0], LABELS[2]]
        self.assertEqual(self.results("all_gather"), {0: both, 2: both})
        self.assertEqual(self.results("gather", root=1), {2: both})
        joined = [[1, 2, 63, 64]]
        self.assertEqual(self.results("all_gather_into_tensor"), {0: joined, 2: joined})

    def test_reductions(self) -> None:
        self.assertEqual(self.results("all_reduce"), {0: [[4, 6]], 2: [[4, 6]]})
        self.assertEqual(self.results("reduce", root=1, op="product"), {2: [[3, 8]]})
        # Parts 1 are 8 further than parts 0, modulo 5: 4, 5 and 1, 2.
        self.assertEqual(self.results("reduce_scatter", op="max"), {0: [[3, 4]], 2: [[4, 5]]})
        # 1, 2, 3, 4 and 3, 4, 5, 1.
        self.assertEqual(self.results("reduce_scatter_tensor", op="sum"), {0: [[4, 6]], 2: [[8, 5]]})

    def test_two_tensors_at_a_time(self) -> None:
        """The second tensor has twice as many elements; what is gathered stands by sender, then by tensor."""
        # 4, 5, 1, 2 of rank 0 and 1, 2, 3, 4 of rank 2.
        reduced = [[4, 6], [[5, 7], [4, 6]]]
        self.assertEqual(self.results("all_reduce_coalesced"), {0: reduced, 2: reduced})
        gathered = [[1, 2], [[9, 10], [11, 12]], [63, 64], [[71, 72], [73, 74]]]
        self.assertEqual(self.results("all_gather_coalesced"), {0: gathered, 2: gathered})

    def test_managed_calls(self) -> None:
        """Each is what the call is by itself, on a second tensor with twice as many elements."""
        reduced = [[4, 6], [[5, 7], [4, 6]]]
        self.assertEqual(self.results("all_reduce", managed=True), {0: reduced, 2: reduced})
        gathered = [[1, 2, 63, 64], [[9, 10], [11, 12], [71, 72], [73, 74]]]
        self.assertEqual(self.results("all_gather_into_tensor", managed=True), {0: gathered, 2: gathered})
        # 4, 5, 1, 2, 3, 4, 5, 1 of rank 0 and 1, 2, 3, 4, 5, 1, 2, 3 of rank 2.
        self.assertEqual(
            self.results("reduce_scatter_tensor", managed=True),
            {0: [[4, 6], [[5, 7], [4, 6]]], 2: [[8, 5], [[8, 5], [7, 4]]]},
        )

    def test_objects(self) -> None:
        """Each rank's and each part's is longer than the one before: by one row, and by two."""
        own = {0: [[1, 2]], 2: [[63, 64], [65, 66]]}
        both = [own[0], own[2]]
        self.assertEqual(self.results("all_gather_object"), {0: both, 2: both})
        self.assertEqual(self.results("gather_object", root=1), {2: both})
        second = [[9, 10], [11, 12], [13, 14]]
        self.assertEqual(self.results("broadcast_object_list"), {0: [own[0], second], 2: [own[0], second]})
        self.assertEqual(self.results("scatter_object_list"), {0: [own[0]], 2: [second]})

    def test_a_part_for_each(self) -> None:
        self.assertEqual(self.results("all_to_all"), {0: [[1, 2], [63, 64]], 2: [[9, 10], [71, 72]]})
        self.assertEqual(self.results("all_to_all_single"), {0: [[1, 2, 63, 64]], 2: [[3, 4, 65, 66]]})

    def test_uneven_rows(self) -> None:
        step = CollectiveStep("all_to_all_single", PAIR, shape=(1,), uneven=True)
        self.assertEqual([[rows(step, i, j) for j in (0, 1)] for i in (0, 1)], [[1, 0], [2, 1]])
        self.assertEqual([splits(step, member) for member in (0, 1)], [([1, 2], [1, 0]), ([0, 1], [2, 1])])
        got = self.results("all_to_all_single", shape=(1,), uneven=True)
        self.assertEqual(got, {0: [[1, 63, 64]], 2: [[65]]})

    def test_a_barrier_and_a_straggler_give_nothing(self) -> None:
        known = interpret(Program(3, (CollectiveStep("barrier", PAIR), Straggler(1))))
        self.assertEqual(known.results, {})

    def test_a_message(self) -> None:
        known = interpret(Program(3, (Message(2, 0, PAIR, dtype="int8"),)))
        self.assertEqual({key: value[0].tolist() for key, value in known.results.items()}, {(0, 0): [63, 64]})

    def test_a_message_of_objects(self) -> None:
        """The second is three times as long as the first, and of other numbers."""
        known = interpret(Program(3, (Message(2, 0, PAIR, dtype="int8", objects=True),)))
        listed = [[[63, 64]], [[16, 17], [18, 19], [20, 21]]]
        self.assertEqual(
            {key: [each.tolist() for each in value] for key, value in known.results.items()}, {(0, 0): listed}
        )


class Taking(unittest.TestCase):
    """Steps whose input is the output of an earlier one."""

    def taken(self, first: CollectiveStep, second: CollectiveStep) -> list[Any]:
        known = interpret(Program(3, (first, second)))
        return [known.inputs[1, rank][0].tolist() for rank in second.group]

    def test_is_the_first_tensor_where_it_fits(self) -> None:
        first = CollectiveStep("broadcast", PAIR, dtype="int32", root=1)
        second = CollectiveStep("all_reduce", (0, 1, 2), dtype="int32", takes=0)
        own = fill(1, 1, 0, (2,), "int32", 5).tolist()
        self.assertEqual(self.taken(first, second), [[63, 64], own, [63, 64]])

    def test_nothing_of_another_dtype_or_shape(self) -> None:
        first = CollectiveStep("broadcast", PAIR, dtype="int32", root=1)
        for other in ({"dtype": "int64"}, {"dtype": "int32", "shape": (3,)}):
            second = CollectiveStep("all_gather", PAIR, takes=0, **other)
            self.assertNotIn([63, 64], self.taken(first, second))

    def test_nothing_that_was_rounded(self) -> None:
        first, second = (CollectiveStep("all_reduce", PAIR, takes=takes) for takes in (None, 0))
        self.assertEqual(self.taken(first, second)[0], fill(1, 0, 0, (2,), "float32", 5).tolist())
        self.assertTrue(exact(CollectiveStep("all_reduce", PAIR, dtype="int8")))
        self.assertTrue(exact(CollectiveStep("all_gather", PAIR)))
        self.assertFalse(exact(first))


class Numbers(unittest.TestCase):
    """The input data, the dtypes and the arithmetic of the interpreter."""

    def test_labels_tell_ranks_parts_and_steps_apart(self) -> None:
        seen = {
            tuple(fill(step, rank, part, (3,), "int8", 127).tolist())
            for step in (0, 1)
            for rank in range(4)
            for part in range(3)
        }
        self.assertEqual(len(seen), 24)

    def test_every_dtype(self) -> None:
        self.assertEqual(fill(0, 1, 0, (2,), "complex64", 127).tolist(), [32 - 64j, 33 - 66j])
        self.assertEqual(fill(0, 1, 0, (2,), "bool", 127).tolist(), [False, True])
        self.assertEqual(fill(0, 0, 0, (), "bfloat16", 4).dtype, np.float32)

    def test_integers_wrap_and_booleans_are_logical(self) -> None:
        big = np.array([100], dtype=np.int8)
        self.assertEqual(combined("sum", [big, big]).tolist(), [-56])
        true, false = np.array([True]), np.array([False])
        for op in ("sum", "bxor", "max"):
            self.assertEqual(combined(op, [true, false]).tolist(), [True], op)
        for op in ("product", "band", "min"):
            self.assertEqual(combined(op, [true, false]).tolist(), [False], op)
        self.assertEqual(combined("sum", [true, true]).tolist(), [True])
        self.assertEqual(combined("avg", [np.array([n], np.float32) for n in (1, 2)]).tolist(), [1.5])

    @bounded(100)
    @given(programs(4))
    def test_every_program_has_a_result_for_who_gets_one(self, program: Program) -> None:
        known, alone = interpret(program), ("barrier", "reduce", "gather", "gather_object")
        for number, step in enumerate(program.steps):
            if isinstance(step, CollectiveStep) and step.kind not in alone:
                for rank in step.group:
                    self.assertIn((number, rank), known.results)


if __name__ == "__main__":
    unittest.main()
