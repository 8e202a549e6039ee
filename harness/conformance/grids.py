"""``Grid``: cells as a table of rows and columns, as HTML and Markdown show them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.conformance.matrix import BAD, Cell, Matrix, State, count, merged
from harness.conformance_features import SECTION, TEST
from harness.report.naming import parse_id

# What a state looks like without colour.
SYMBOLS: Mapping[State, str] = {
    State.RIGHT: "✓",
    State.SURPLUS: "+",
    State.WRONG: "✗",
    State.REFUSED: "⊘",
    State.CRASHED: "‼",
    State.HUNG: "∞",
    State.UNDECLARED: "-",
    State.NOT_RUN: "·",
}
# Coordinates that stand in the columns of a suite's first grid; of several the first that the suite has.
_KINDS = ("dtype", "placements", "feature")
# Those that stand in the row, behind the name; all others are in the columns of the second grid.
_IN_ROW = ("reduction",)
# The column of cells that have none of the coordinates of the columns.
_NONE = "any"
_DTYPES = (
    *("float64", "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "complex128", "complex64"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"),
)


@dataclass(frozen=True, slots=True)
class Box:
    """The cells of one row and one column: the worst of them, and how many of those that ran are right."""

    worst: Cell
    good: int
    tried: int

    @property
    def text(self) -> str:
        """Symbol and numbers, and the word where it is bad: ``✓ 9``, ``✗ 7/9 wrong``, ``-``."""
        symbol, state = SYMBOLS[self.worst.state], self.worst.state
        if not self.tried:
            return symbol
        if self.good == self.tried:
            return f"{symbol} {self.good}"
        return f"{symbol} {self.good}/{self.tried} {state.value}"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; a box is None where nothing is tried."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Box | None, ...]], ...]


def grids(matrix: Matrix) -> list[Grid]:
    """Of each suite with cells: features, then by kind (dtype, placements), way of calling and world size."""
    by_suite: dict[str, list[Cell]] = defaultdict(list)
    for each in matrix.cells:
        by_suite[each.suite].append(each)
    found = []
    for suite, every in by_suite.items():
        found += _sections(suite, every)
        cells = [each for each in every if not any(name == SECTION for name, _ in each.coordinates)]
        if not cells:
            continue
        names = {name for each in cells for name, _ in each.coordinates}
        kind = next((name for name in _KINDS if name in names), "")
        if kind:
            found.append(grid(f"{suite}: operation x {kind}", cells, (kind,)))
        others = {name: None for each in cells for name, _ in each.coordinates}
        ways = tuple(name for name in others if name not in (*_KINDS, *_IN_ROW))
        title = " x ".join(name.replace("_", " ") for name in ways)
        found.append(grid(f"{suite}: operation x {title}", cells, ways))
    return found


def _sections(suite: str, cells: Iterable[Cell]) -> list[Grid]:
    """A grid for each section, of the features that whole tests try."""
    sections: dict[str, list[Cell]] = defaultdict(list)
    for each in cells:
        section = dict(each.coordinates).get(SECTION)
        if section is not None:
            sections[section].append(each)
    found = []
    for section, members in sections.items():
        names = dict.fromkeys(name for each in members for name, _ in each.coordinates)
        columns = tuple(name for name in names if name not in (SECTION, TEST))
        title = " x ".join([section, *(name.replace("_", " ") for name in columns)])
        found.append(grid(f"{suite}: {title}", members, columns))
    return found


def grid(title: str, cells: Sequence[Cell], of: Sequence[str]) -> Grid:
    """The cells with the coordinates of these names in the columns."""
    boxes: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for each in cells:
        at = dict(each.coordinates)
        column = ", ".join(_words(name, at[name]) for name in of if name in at) or _NONE
        boxes[_row(each, at), column].append(each)
    columns = sorted({column for _, column in boxes}, key=_place)
    rows = dict.fromkeys(row for row, _ in boxes)
    return Grid(
        title,
        tuple(columns),
        tuple((row, tuple(box(boxes.get((row, column), ())) for column in columns)) for row in rows),
    )


def box(cells: Sequence[Cell]) -> Box | None:
    """The box of some cells; None for none."""
    if not cells:
        return None
    shown = [each for each in cells if each.state.good or each.state.bad] or cells
    (worst,) = merged(Cell("", "", (), each.state, each.said, each.test, each.known) for each in shown)
    counted = count(cells)
    surplus = counted.states.get(State.SURPLUS, 0)
    return Box(worst, counted.good + surplus, counted.tried + surplus)


def _row(each: Cell, at: Mapping[str, str]) -> str:
    return " ".join([each.name, *(at[name] for name in _IN_ROW if name in at)])


def _words(name: str, value: str) -> str:
    return f"{value} rank{'s' * (value != '1')}" if name == "world_size" else value


def _place(column: str) -> tuple[int, str]:
    """The columns' order: dtypes by kind and size, others by their words, and "any" last."""
    if column in _DTYPES:
        return (_DTYPES.index(column), column)
    return (len(_DTYPES) + (column == _NONE), column)


# -- tests


@dataclass(frozen=True, slots=True)
class ClassRow:
    """The tests of a class: their number in each state, and how many are known failures."""

    suite: str
    name: str
    states: Mapping[State, int]
    known: int

    @property
    def state(self) -> State:
        """The worst state of its tests."""
        return max(self.states, key=list(State).index)


def by_class(tests: Iterable[Cell]) -> list[ClassRow]:
    """A row for each class of tests, by suite."""
    found: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for each in tests:
        parsed = parse_id(each.name)
        found[parsed.suite, parsed.classname.removeprefix(f"suites.{parsed.suite}.")].append(each)
    rows = []
    for (suite, name), members in sorted(found.items()):
        counted = count(members)
        rows.append(ClassRow(suite, name, counted.states, counted.known))
    return rows


def bad_cells(matrix: Matrix) -> list[Cell]:
    """All that does not work though it is declared; the known failures last.

    The cells come before the tests, without those tests in which one of the cells has failed.
    """
    cells = [each for each in matrix.cells if each.state in BAD]
    told = {each.test for each in cells}
    found = [*cells, *(each for each in matrix.tests if each.state in BAD and each.name not in told)]
    return sorted(found, key=lambda each: bool(each.known))
