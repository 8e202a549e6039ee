"""Cuts the tests of a run into batches: units that one worker runs one after the other.

A worker costs milliseconds to start, a class's fixture may take seconds, and a fork server for ranks takes a
time in between. Tests of one module (and, where a class has a fixture, of one class) are therefore in one
batch, as long as there are enough batches to keep every slot busy until the end of the run. Tests that share
a fixture of pytest's, which one test may leave to the next as it has changed it, are never parted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.runner.scheduling.timings import Timings
from harness.runner.scheduling.unit import Demand, Unit
from harness.runner.worker_process.warm_up import warm_up_key

# A batch may take one eighth of a slot's fair share of the run. While the last batch runs, the other slots
# are then idle for less than an eighth of the run.
PARTS_PER_SLOT = 8
# Seconds that the runner itself needs for a test. Without them, any number of tests with a recorded time of
# 0 s would be one batch.
LEAST_S = 0.001
# Seconds. A shorter batch would spend much of its time on its worker: fork, connect, a session of pytest.
# Where it is too long, idle slots take tests back.
SHORTEST_S = 2.0
# Seconds. Where a worker crashes, the rest of a long batch has to warm up another worker.
LONGEST_S = 30.0
# Tests of a batch at most: a claim pipe of so many bytes is within every system's limit (pipe(7): 1 MiB).
MOST_UNITS = 100_000
# A batch runs tests for at least this many times as long as its fixtures take, because every batch sets its
# fixtures up again.
WORK_PER_FIXTURE = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """Units of one module and with the same variables that one worker runs, in the order in which they run.

    ``demand`` is that of each unit; of units that share a fixture it is what suffices for each. ``key`` is
    unique among the batches of a run; ``expected_s`` includes the fixtures.
    """

    key: int
    units: tuple[Unit, ...]
    demand: Demand
    expected_s: float


def batches(
    units: Iterable[Unit], timings: Timings, slots: int, *, isolate: bool = False, first_key: int = 0
) -> tuple[Batch, ...]:
    """All ``units`` in batches, with keys from ``first_key`` on; with ``isolate`` each unit is one batch.

    Units keep their order within a module. A batch holds units of one module with one demand and the same
    variables, and of one class where that class has a fixture. It lasts no longer than an eighth of
    ``1/slots`` of the whole (between 2 and 30 s), unless one unit does or its fixtures cost more than a
    quarter of that; a module's warm-up counts as one. Units of which nothing is recorded, or with a fixture
    of unknown cost, are not cut: each batch would pay for what they do first, and idle slots take tests back
    once that has been seen (``work_sharing``). Units that share a fixture
    (``Unit.shares``) are one batch, whatever their demands and however long it lasts, unless their variables
    or groups differ.
    """
    units = timings.expect(units)
    recorded = timings.recorded(unit.id for unit in units)
    fair_s = math.fsum(map(_seconds, units)) / slots / PARTS_PER_SLOT
    target_s = min(LONGEST_S, max(SHORTEST_S, fair_s))
    pieces: list[tuple[Unit, ...]] = []
    for group in _groups(units):
        known = any(unit.id in recorded for unit in group)
        limit_s = _limit_s(group[0], timings, target_s) if known else math.inf
        if isolate:
            pieces.extend((unit,) for unit in group)
        elif group[0].shares:
            pieces.append(tuple(group))
        else:
            pieces.extend(_pieces(group, limit_s))
    return tuple(
        Batch(
            key=key,
            units=piece,
            demand=_demand_of(piece),
            expected_s=math.fsum(map(_seconds, piece)) + _fixtures_s(piece[0], timings),
        )
        for key, piece in enumerate(pieces, first_key)
    )


def _seconds(unit: Unit) -> float:
    return max(LEAST_S, unit.expected_s or 0.0)


def _groups(units: Sequence[Unit]) -> list[list[Unit]]:
    """Units that may share a batch, groups in order of their first unit."""
    groups: dict[tuple[object, ...], list[Unit]] = {}
    for unit in units:
        own_class = unit.class_id if unit.class_id in unit.fixtures else None
        kind = (unit.shares, unit.demand.group) if unit.shares else (own_class, unit.demand)
        groups.setdefault((unit.module, *kind, unit.environ), []).append(unit)
    return list(groups.values())


def _demand_of(units: Sequence[Unit]) -> Demand:
    """What suffices for each of the units."""
    first = units[0].demand
    if all(unit.demand == first for unit in units):
        return first
    demands = [unit.demand for unit in units]
    return Demand(
        ranks=max(demand.ranks for demand in demands),
        cpu_slots=max(demand.cpu_slots for demand in demands),
        accelerators=max(demand.accelerators for demand in demands),
        memory_mb=max(demand.memory_mb for demand in demands),
        exclusive=any(demand.exclusive for demand in demands),
        group=first.group,
        hosts=max(demand.hosts for demand in demands),
    )


def _fixtures_s(unit: Unit, timings: Timings) -> float:
    """The seconds of a batch's fixtures, without the module's import, which the zygote has done already."""
    keys = (warm_up_key(unit.module), *unit.fixtures)
    return math.fsum(timings.fixtures.get(key, 0.0) for key in keys)


def _limit_s(unit: Unit, timings: Timings, target_s: float) -> float:
    """The longest that a batch with this unit's fixtures may take."""
    if any(key not in timings.fixtures for key in unit.fixtures):
        return math.inf
    return max(target_s, WORK_PER_FIXTURE * _fixtures_s(unit, timings))


def _pieces(group: Sequence[Unit], limit_s: float) -> Iterator[tuple[Unit, ...]]:
    """The group, cut into pieces that last at most ``limit_s``, unless a single unit lasts longer."""
    piece: list[Unit] = []
    piece_s = 0.0
    for unit in group:
        seconds = _seconds(unit)
        if piece and (piece_s + seconds > limit_s or len(piece) == MOST_UNITS):
            yield tuple(piece)
            piece, piece_s = [], 0.0
        piece.append(unit)
        piece_s += seconds
    if piece:
        yield tuple(piece)
