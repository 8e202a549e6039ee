"""Batches: units that one worker runs one after the other, cut so that workers stay evenly busy.

A worker costs milliseconds, a class's fixture maybe seconds, and a fork server for ranks something between;
so what shares a module (and, where a class has a fixture, the class) goes together, as long as there are
enough batches to keep every slot busy to the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.runner.timings import Timings
from harness.runner.unit import Demand, Unit

# A batch may take this part of a slot's fair share of the run: the last one to end then leaves the others
# idle for less than an eighth of the whole.
PARTS_PER_SLOT = 8
# Seconds that the runner itself needs for a test; without it, any number of tests recorded with 0 s would
# be one batch.
LEAST_S = 0.001
# Seconds. Below this a batch is mostly worker: fork, connect, report.
SHORTEST_S = 0.5
# Seconds. Progress, resuming and the loss of a crashed worker's warm state are all by the batch.
LONGEST_S = 30.0
# A batch works at least this many times as long as its fixtures cost, for each batch pays them anew.
WORK_PER_FIXTURE = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """What the scheduler places: units of one module and one demand, in the order in which they run.

    ``key`` tells batches of one run apart; ``expected_s`` includes the fixtures.
    """

    key: int
    units: tuple[Unit, ...]
    demand: Demand
    expected_s: float


def batches(
    units: Iterable[Unit], timings: Timings, slots: int, *, isolate: bool = False, first_key: int = 0
) -> tuple[Batch, ...]:
    """All ``units`` in batches, with keys from ``first_key`` on; with ``isolate`` each in its own.

    Units keep their order within a module. A batch holds units of one module with one demand, and of one
    class where that class has a fixture. It lasts no longer than an eighth of ``1/slots`` of the whole
    (between 0.5 and 30 s), unless one unit does or its fixtures cost more than a quarter of that.
    """
    units = timings.expect(units)
    fair_s = math.fsum(map(_seconds, units)) / slots / PARTS_PER_SLOT
    target_s = min(LONGEST_S, max(SHORTEST_S, fair_s))
    pieces: list[tuple[Unit, ...]] = []
    for group in _groups(units):
        limit_s = max(target_s, WORK_PER_FIXTURE * _fixtures_s(group[0], timings))
        pieces.extend(((unit,) for unit in group) if isolate else _pieces(group, limit_s))
    return tuple(
        Batch(
            key=key,
            units=piece,
            demand=piece[0].demand,
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
        groups.setdefault((unit.module, own_class, unit.demand), []).append(unit)
    return list(groups.values())


def _fixtures_s(unit: Unit, timings: Timings) -> float:
    """What a batch pays before its first test; not the module's import, which the fork server did once."""
    return math.fsum(timings.fixtures.get(key, 0.0) for key in unit.fixtures)


def _pieces(group: Sequence[Unit], limit_s: float) -> Iterator[tuple[Unit, ...]]:
    """The group cut so that only a piece of one unit lasts longer than ``limit_s``."""
    piece: list[Unit] = []
    piece_s = 0.0
    for unit in group:
        seconds = _seconds(unit)
        if piece and piece_s + seconds > limit_s:
            yield tuple(piece)
            piece, piece_s = [], 0.0
        piece.append(unit)
        piece_s += seconds
    if piece:
        yield tuple(piece)
