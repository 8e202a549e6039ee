"""Formats measurements as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tools.bench.contenders import KEPT as KEPT_CONTENDERS
from tools.bench.contenders import TITLES
from tools.bench.kinds import DEATH_SEEN, DEATH_UNSEEN, KEPT, MEMORY, TEST
from tools.bench.series import Cell, Measured, Series, median, names, per_added_rank, ratio, sizes
from tools.simple_table import Table

LIMIT = "bare"
OURS = "forkserver"
UPSTREAM = "upstream"


def medians(measured: Measured) -> Table:
    """The medians of each contender, one row for each measurement, and the fork server's ratios to others."""
    columns = [name for name in names(measured, TITLES) if name not in KEPT_CONTENDERS]
    rows = [_test_row(measured, columns, size) for size in sizes(measured)]
    if sizes(measured, MEMORY.name):
        rows.append(_row("memory per added rank", [per_added_rank(measured, c) for c in columns], memory))
    for kind in (DEATH_SEEN, DEATH_UNSEEN):
        for size in sizes(measured, kind.name):
            values = [median(measured, kind.name, size, c) for c in columns]
            rows.append(_row(f"{kind.title}: time to verdict", values, seconds))
    return Table(("measured", *(TITLES[c] for c in columns), "of bare", "of upstream"), tuple(rows))


def kept(measured: Measured) -> Table:
    """The medians of the contenders whose ranks are kept: of a class's first test, and of its later ones."""
    columns = [name for name in names(measured, TITLES) if name in KEPT_CONTENDERS]
    rows = [
        _row(f"{kind.title}, {size} ranks", [median(measured, kind.name, size, c) for c in columns], brief)[
            :-2
        ]
        for kind in KEPT
        for size in sizes(measured, kind.name)
    ]
    return Table(("measured", *(TITLES[c] for c in columns)), tuple(rows))


def _test_row(measured: Measured, columns: Sequence[str], size: int) -> tuple[str, ...]:
    values = [median(measured, TEST.name, size, c) for c in columns]
    return _row(f"one test, {size} ranks", values, seconds, _ratios(measured, size))


def _row(
    title: str,
    values: Iterable[float | None],
    show: Callable[[float], str],
    ratios: Sequence[str] = ("", ""),
) -> tuple[str, ...]:
    return (title, *("-" if value is None else show(value) for value in values), *ratios)


def _ratios(measured: Measured, size: int) -> tuple[str, str]:
    ours = median(measured, TEST.name, size, OURS)
    limit = ratio(ours, median(measured, TEST.name, size, LIMIT))
    faster = ratio(median(measured, TEST.name, size, UPSTREAM), ours)
    return ("" if limit is None else f"{limit:.2f} x", "" if faster is None else f"1/{faster:.0f}")


def spread(measured: Measured) -> Table:
    """A row for each cell with its median, its quartiles and the numbers of values and errors."""
    rows = [_spread_row(cell, series) for cell, series in measured.items()]
    return Table(("kind", "ranks", "contender", "median", "quartiles", "runs", "errors"), tuple(rows))


def _spread_row(cell: Cell, series: Series) -> tuple[str, ...]:
    show = memory if cell.kind == MEMORY.name else seconds
    middle, quartiles = series.median, series.quartiles
    return (
        cell.kind,
        str(cell.world_size),
        TITLES.get(cell.contender, cell.contender),
        "-" if middle is None else show(middle),
        "-" if quartiles is None else f"{show(quartiles[0])} .. {show(quartiles[1])}",
        str(len(series.values)),
        str(len(series.errors) or ""),
    )


def seconds(value: float) -> str:
    """A duration as text, in seconds or, below one second, in milliseconds."""
    return f"{value:.2f} s" if abs(value) >= 1 else f"{value * 1e3:.1f} ms"


def brief(value: float) -> str:
    """A duration as text, with two digits after the point if it is less than ten milliseconds."""
    return f"{value * 1e3:.2f} ms" if abs(value) < 0.01 else seconds(value)


def memory(value: float) -> str:
    """Megabytes as text."""
    return f"{value:.1f} MB"
