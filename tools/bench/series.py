"""Holds what was measured so far: a series of values for each kind, world size and contender. It is pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tools.bench.kinds import MEMORY, TEST


@dataclass(frozen=True, slots=True)
class Cell:
    """The key of a series: what was measured, at which world size, on which contender."""

    kind: str
    world_size: int
    contender: str


@dataclass(slots=True)
class Series:
    """A cell's values in the kind's unit, the errors that came instead of values, and the time spent."""

    values: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    spent_s: float = 0.0

    @property
    def median(self) -> float | None:
        """The median of the values; None without values."""
        return statistics.median(self.values) if self.values else None

    @property
    def quartiles(self) -> tuple[float, float] | None:
        """The first and third quartile, or the extremes of fewer than four values; None without values."""
        if not self.values:
            return None
        if len(self.values) < 4:
            return min(self.values), max(self.values)
        first, _, third = statistics.quantiles(self.values, n=4)
        return first, third

    def wants(self, rounds: int, budget_s: float) -> bool:
        """Whether to measure again: at most ``rounds`` times, and only if that would fit into the budget."""
        done = len(self.values) + len(self.errors)
        return done < rounds and (not done or self.spent_s + self.spent_s / done <= budget_s)


Measured = Mapping[Cell, Series]


def too_dear(measured: Measured, cell: Cell, budget_s: float) -> bool:
    """Whether a value at a smaller world size already cost this contender more than the budget."""
    return any(
        other.kind == cell.kind
        and other.contender == cell.contender
        and other.world_size < cell.world_size
        and series.spent_s > budget_s * max(1, len(series.values) + len(series.errors))
        for other, series in measured.items()
    )


def median(measured: Measured, kind: str, world_size: int, contender: str) -> float | None:
    """The median of a cell; None if it was not measured."""
    series = measured.get(Cell(kind, world_size, contender))
    return series.median if series is not None else None


def ratio(value: float | None, other: float | None) -> float | None:
    """``value / other``; None if either is missing or ``other`` is 0."""
    return value / other if value is not None and other else None


def per_added_rank(measured: Measured, contender: str) -> float | None:
    """The megabytes of memory that each added rank costs in all; None unless there are two world sizes."""
    medians = {
        cell.world_size: series.median
        for cell, series in measured.items()
        if cell.kind == MEMORY.name and cell.contender == contender and series.median is not None
    }
    if len(medians) < 2:
        return None
    low, high = min(medians), max(medians)
    return (medians[high] - medians[low]) / (high - low)


def sizes(measured: Measured, kind: str = TEST.name) -> list[int]:
    """The world sizes at which a kind was measured."""
    return sorted({cell.world_size for cell in measured if cell.kind == kind})


def names(measured: Measured, order: Iterable[str]) -> list[str]:
    """The contenders that were measured, in the given order."""
    there = {cell.contender for cell in measured}
    return [name for name in order if name in there]
