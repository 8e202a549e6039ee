"""Cells and a report with every state, for the tests beside this file."""

from __future__ import annotations

from harness.conformance.cells import Entry
from harness.conformance.document import Conformance
from harness.conformance.left_out import LeftOut
from harness.conformance.matrix import Cell, Matrix, State

TEST = "suites.c10d.test_x.Ranks.test_{}"
NASTY = '<b> & "quoted" | *star*'


def entry(rank: int, number: int, operation: str = "all_reduce", **fields: object) -> Entry:
    """Returns a cell of one of two ranks, right unless ``fields`` say something else."""
    usual = {"end": "right", "world_size": 2, "coordinates": (("dtype", "float32"),)}
    return Entry(rank, number, operation=operation, **{**usual, **fields})  # type: ignore[arg-type]  # of a table


def cell(state: State, name: str = "all_reduce", dtype: str = "float32", **fields: str) -> Cell:
    """Returns a cell of c10d with two ranks; its test has the state's name."""
    coordinates = (("dtype", dtype), ("way", "sync"), ("world_size", "2"))
    test = TEST.format(state.name.lower())
    return Cell("c10d", name, coordinates, state, **{"test": test, **fields})


def whole(state: State, suite: str = "c10d", **fields: str) -> Cell:
    """Returns a test as a cell, named after its state."""
    test = f"suites.{suite}.test_x.Ranks.test_{state.name.lower()}"
    return Cell(suite, test, (), state, test=test, **fields)


def report(*cells: Cell, tests: tuple[Cell, ...] = (), left_out: LeftOut | None = None) -> Conformance:
    """Returns a report with these cells and tests."""
    bad = [each.test for each in (*cells, *tests) if each.state.bad]
    return Conformance(
        "mine on xpu",
        {"torch": "2.13.0", "Python": "3.11.7", "platform": ""},
        Matrix(tests, cells),
        {test: f"python run_tests.py {test}" for test in bad},
        left_out or LeftOut(),
    )


def everything() -> Conformance:
    """Returns a report with cells and tests in every state, one of them a known failure."""
    return report(
        *(cell(state, name=f"op_{state.name.lower()}", said=NASTY if state.bad else "") for state in State),
        cell(
            State.WRONG, name="op_known", said="off by one", known="no int16 yet", test=TEST.format("known")
        ),
        tests=(*(whole(state) for state in State), whole(State.RIGHT, "spmd")),
        left_out=LeftOut(
            frozenset({"suites.c10d.test_x"}), frozenset({"suites.aot.test_z"}), frozenset({NASTY})
        ),
    )
