"""Tests how cells become tables."""

from __future__ import annotations

import unittest

from harness.conformance.grids import Grid, bad_cells, box, by_class, grid, grids
from harness.conformance.matrix import Cell, Matrix, State
from suites.selftest.conformance.samples import cell, everything, whole


def texts(table: Grid) -> dict[str, list[str]]:
    """Returns the texts of each row."""
    return {name: ["" if each is None else each.text for each in boxes] for name, boxes in table.rows}


class BoxTest(unittest.TestCase):
    """What a box shows of its cells."""

    def test_texts(self) -> None:
        """A symbol for the worst, how many are right, and the word where not all are."""
        right, wrong = cell(State.RIGHT), cell(State.WRONG)
        for given, text in (
            ([right] * 9, "✓ 9"),
            ([right] * 7 + [wrong] * 2, "✗ 7/9 wrong"),
            ([cell(State.CRASHED)], "‼ 0/1 crashed"),
            ([cell(State.HUNG), right], "∞ 1/2 hung"),
            ([cell(State.REFUSED)], "⊘ 0/1 refused"),
            ([cell(State.UNDECLARED)] * 2, "-"),
            ([cell(State.NOT_RUN)], "·"),
            ([cell(State.SURPLUS)], "+ 1"),
            ([right, cell(State.UNDECLARED)], "✓ 1"),
            ([cell(State.SURPLUS), cell(State.UNDECLARED)], "+ 1"),
        ):
            with self.subTest(text):
                found = box(given)
                assert found is not None
                self.assertEqual(found.text, text)
        self.assertIsNone(box([]))


class GridTest(unittest.TestCase):
    """Rows and columns."""

    def test_kinds_and_ways(self) -> None:
        """A suite has a table by dtype, in the order of kinds and sizes, and one by all else."""
        reduction = (("dtype", "bool"), ("reduction", "max"), ("way", "async"), ("world_size", "1"))
        matrix = Matrix((), (
            cell(State.RIGHT, dtype="bool"),
            cell(State.RIGHT, dtype="float64"),
            Cell("c10d", "reduce", reduction, State.WRONG),
            Cell("c10d", "barrier", (("world_size", "2"),), State.RIGHT),
        ))  # fmt: skip
        by_dtype, by_way = grids(matrix)
        self.assertEqual(by_dtype.title, "c10d: operation x dtype")
        self.assertEqual(by_dtype.columns, ("float64", "bool", "any"))
        self.assertEqual(
            texts(by_dtype),
            {
                "all_reduce": ["✓ 1", "✓ 1", ""],
                "reduce max": ["", "✗ 0/1 wrong", ""],
                "barrier": ["", "", "✓ 1"],
            },
        )
        self.assertEqual(by_way.title, "c10d: operation x way x world size")
        self.assertEqual(by_way.columns, ("2 ranks", "async, 1 rank", "sync, 2 ranks"))
        self.assertEqual(texts(by_way)["all_reduce"], ["", "", "✓ 2"])

    def test_suites(self) -> None:
        """Each suite has tables of its own; a suite without dtypes has one by what it has."""
        placed = Cell("spmd", "matmul", (("placements", "R, S(0)"), ("world_size", "4")), State.RIGHT)
        feature = Cell("aot", "views", (("world_size", "1"),), State.RIGHT)
        titles = [each.title for each in grids(Matrix((), (feature, placed)))]
        self.assertEqual(
            titles,
            ["aot: operation x world size", "spmd: operation x placements", "spmd: operation x world size"],
        )
        self.assertEqual(grids(Matrix((), ())), [])

    def test_missing_coordinate(self) -> None:
        """A cell without any of the columns' coordinates is in a column of its own."""
        self.assertEqual(grid("", [cell(State.RIGHT)], ["size"]).columns, ("any",))


class ListTest(unittest.TestCase):
    """What is listed beside the tables."""

    def test_by_class(self) -> None:
        """The tests of a class by state, without the suite's own beginning of names."""
        first, second = by_class([whole(State.RIGHT), whole(State.RIGHT, "spmd"), whole(State.WRONG)])
        self.assertEqual((first.suite, first.name, first.state), ("c10d", "test_x.Ranks", State.WRONG))
        self.assertEqual(first.states, {State.RIGHT: 1, State.WRONG: 1})
        self.assertEqual((second.suite, second.state), ("spmd", State.RIGHT))

    def test_bad_cells(self) -> None:
        """All that is bad, known failures last, and no test whose cell is listed."""
        found = bad_cells(everything().matrix)
        self.assertEqual([bool(each.known) for each in found], [False] * 4 + [True])
        self.assertTrue(all(each.coordinates for each in found))
        alone = whole(State.HUNG)
        self.assertEqual(bad_cells(Matrix((alone,), ())), [alone])


if __name__ == "__main__":
    unittest.main()
