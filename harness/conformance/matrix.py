"""``matrix``: the cells of a run, each with one state, made of its tests' records and of what ranks recorded.

Pure. A cell has one state however many ranks and tests try it: the worst. A test is a cell of its suite as
well, so that suites whose tests name no cells have their rows.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness import conformance_features
from harness.conformance import cells
from harness.conformance.cells import Entry
from harness.conformance_features import SECTION, TEST, Feature
from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.naming import parse_id
from harness.targets.declared import is_undeclared

Coordinates = tuple[tuple[str, str], ...]


class State(str, enum.Enum):
    """What has become of a cell, from the best to the worst; the value is the word that reports use."""

    NOT_RUN = "not run"
    SURPLUS = "works, not declared"  # on every rank: one that refuses it makes it not declared
    UNDECLARED = "not declared"
    RIGHT = "right"
    REFUSED = "refused"
    WRONG = "wrong"
    HUNG = "hung"
    CRASHED = "crashed"

    @property
    def bad(self) -> bool:
        """Whether the target does not do what it declares."""
        return self in BAD

    @property
    def good(self) -> bool:
        """Whether it works."""
        return self in (State.RIGHT, State.SURPLUS)


BAD = frozenset({State.REFUSED, State.WRONG, State.HUNG, State.CRASHED})
_ORDER = {state: place for place, state in enumerate(State)}

_ENDS = {
    cells.RIGHT: State.RIGHT,
    cells.WRONG: State.WRONG,
    cells.REFUSED: State.REFUSED,
    cells.UNDECLARED: State.UNDECLARED,
    cells.SKIPPED: State.NOT_RUN,
}
_STATUSES = {
    Status.PASSED: State.RIGHT,
    Status.XFAILED: State.RIGHT,  # a test that expects a failure of torch, and has found it
    Status.FAILED: State.WRONG,
    Status.XPASSED: State.WRONG,
    Status.ERROR: State.REFUSED,
    Status.CRASHED: State.CRASHED,
    Status.TIMED_OUT: State.HUNG,
    Status.DEADLOCKED: State.HUNG,
    Status.SKIPPED: State.NOT_RUN,
    Status.ENDED: State.NOT_RUN,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with its state.

    ``name`` is an operation or feature, for a test its id. ``said`` is the first line about what went wrong,
    or why it was skipped; ``test`` the id of the test in which that was; ``known`` why it is known to fail.
    """

    suite: str
    name: str
    coordinates: Coordinates
    state: State
    said: str = ""
    test: str = ""
    known: str = ""

    @property
    def key(self) -> tuple[str, str, Coordinates]:
        """What makes it the same cell in another run: all but what has become of it."""
        return (self.suite, self.name, self.coordinates)

    def __str__(self) -> str:
        """The cell as one line: ``c10d all_reduce (dtype=float32, world_size=2)``."""
        if not self.coordinates:
            return self.name
        return (
            f"{self.suite} {self.name} ({', '.join(f'{name}={value}' for name, value in self.coordinates)})"
        )


@dataclass(frozen=True, slots=True)
class Matrix:
    """The cells of a run: ``tests`` are whole tests, ``cells`` what they say that they try."""

    tests: tuple[Cell, ...]
    cells: tuple[Cell, ...]


def matrix(
    records: Iterable[TestRecord], not_run: Iterable[str], entries: Callable[[str], Sequence[Entry]]
) -> Matrix:
    """The matrix of the last record of each test.

    ``not_run`` are the ids of tests that never ended; ``entries`` returns what the ranks of a test recorded.
    """
    records = tuple(records)
    tests = [cell_of_test(record) for record in records]
    tests += [Cell(parse_id(each).suite, each, (), State.NOT_RUN, test=each) for each in not_run]
    known = {record.id: known_of(record) for record in records}
    statuses = {record.id: status_of(record) for record in records}
    ranks = {record.id: {r.rank: r.status for r in record.ranks} for record in records}
    tried: list[Cell] = []
    for test in tests:
        found = states(entries(test.name), statuses.get(test.name), ranks.get(test.name, {}), test.said)
        tried += [
            Cell(test.suite, entry.operation, with_world_size(entry), state, entry.said, test.name,
                 known.get(test.name, "") if state.bad else "")
            for entry, state in found
        ]  # fmt: skip
    tried += cells_of_features(records, tests)
    return Matrix(tuple(sorted(tests, key=lambda each: each.key)), merged(tried))


def cells_of_features(records: Iterable[TestRecord], tests: Iterable[Cell]) -> list[Cell]:
    """A cell for each test with a feature (``harness.conformance_features``), in that test's state."""
    found = {record.id: record.extra["feature"] for record in records if "feature" in record.extra}
    from_json = conformance_features.from_json
    return [_of_feature(from_json(found[test.name]), test) for test in tests if test.name in found]


def _of_feature(tried: Feature, test: Cell) -> Cell:
    own = ((SECTION, tried.section), *tried.columns, (TEST, test.name))
    return replace(test, name=tried.row, coordinates=own)


def known_of(record: TestRecord) -> str:
    """Why the test's failure is known; "" where it is not."""
    return str(record.extra.get("known", {}).get("why", ""))


def status_of(record: TestRecord) -> Status:
    """The test's own status, also where its failure is known."""
    return Status(record.extra.get("known", {}).get("status", record.status.value))


def cell_of_test(record: TestRecord) -> Cell:
    """A whole test as a cell."""
    status = status_of(record)
    state = _STATUSES[status]
    if status is Status.SKIPPED and is_undeclared(record.reason):
        state = State.UNDECLARED
    said = "" if state is State.RIGHT else record.reason
    return Cell(parse_id(record.id).suite, record.id, (), state, said, record.id, known_of(record))


def with_world_size(entry: Entry) -> Coordinates:
    """The coordinates of a cell, the world size among them."""
    return (*entry.coordinates, ("world_size", str(entry.world_size)))


def states(
    entries: Sequence[Entry], status: Status | None, ranks: Mapping[int, Status], said: str = ""
) -> list[tuple[Entry, State]]:
    """The state of each cell of a test by each rank, where that says anything.

    Of the cells that did not end, the one that began first counts: the ranks in others wait for its. It has
    crashed or hung, as its rank has or, where the ranks are not known, the test (``status``). ``said`` is the
    test's reason.
    """
    found = [(entry, _ended(entry)) for entry in entries if entry.end is not None]
    open_ones = [
        (entry, state)
        for entry in entries
        if entry.end is None and (state := _left_open(entry, status, ranks))
    ]
    first = min((entry.number for entry, _ in open_ones), default=0)
    return [
        *found,
        *((replace(entry, said=said), state) for entry, state in open_ones if entry.number == first),
    ]


def _ended(entry: Entry) -> State:
    state = _ENDS[entry.end or ""]
    if entry.declared:
        return state
    return State.SURPLUS if state is State.RIGHT else State.UNDECLARED


def _left_open(entry: Entry, status: Status | None, ranks: Mapping[int, Status]) -> State | None:
    """Crashed or hung; None for a cell that the end of another rank's has cut short."""
    own = ranks.get(entry.rank, status) if ranks else status
    if own is None or _STATUSES[own] not in (State.CRASHED, State.HUNG):
        return None
    return _STATUSES[own]


def merged(tried: Iterable[Cell]) -> tuple[Cell, ...]:
    """One cell for each key, in the worst of its states; known failures come after those that are not.

    Sorted by key.
    """
    by_key: dict[tuple[str, str, Coordinates], list[Cell]] = defaultdict(list)
    for each in tried:
        by_key[each.key].append(each)
    return tuple(min(by_key[key], key=_badness) for key in sorted(by_key))


def _badness(each: Cell) -> tuple[bool, int]:
    return (bool(each.known) or not each.state.bad, -_ORDER[each.state])


# -- counts


@dataclass(frozen=True, slots=True)
class Count:
    """How many cells there are in each state. ``known`` of the bad ones are known."""

    states: Mapping[State, int]
    known: int = 0

    @property
    def good(self) -> int:
        """The number of cells that are right."""
        return self.states.get(State.RIGHT, 0)

    @property
    def tried(self) -> int:
        """The number of cells that the target declares and that ran."""
        return self.good + sum(number for state, number in self.states.items() if state.bad)


def count(found: Iterable[Cell]) -> Count:
    """Counts cells by their states."""
    numbers: dict[State, int] = defaultdict(int)
    known = 0
    for each in found:
        numbers[each.state] += 1
        known += each.state.bad and bool(each.known)
    return Count(numbers, known)


def summary_line(matrix: Matrix) -> str:
    """How many tests of each suite are right, of those that ran, and what else there is, in one line."""
    suites: dict[str, list[Cell]] = defaultdict(list)
    for test in matrix.tests:
        suites[test.suite].append(test)
    words = [f"{suite} {c.good}/{c.tried}" for suite, c in ((s, count(suites[s])) for s in sorted(suites))]
    every, tried = count(matrix.tests), count(matrix.cells)
    asides = [
        (tried.good, f"of {tried.tried} cells right"),
        (every.states.get(State.UNDECLARED, 0), "not declared"),
        (every.states.get(State.NOT_RUN, 0), "not run"),
        (every.known, "known failures" if every.known > 1 else "known failure"),
        (tried.states.get(State.SURPLUS, 0), "right but not declared"),
    ]
    return ", ".join([*words, *(f"{number} {what}" for number, what in asides if number)])
