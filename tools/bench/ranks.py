"""Measures what a test on ranks costs with this harness, with PyTorch's own, and in a bare program.

    python tools/bench/ranks.py                        the whole table; four to six minutes on two cores
    python tools/bench/ranks.py --sizes 2,4 --no-upstream --rounds 9

All contenders are measured in turns in one run and run the same bodies: create a gloo group over a FileStore,
all-reduce once, check the sum. The bare program forks its ranks from a process that has imported torch, and
does nothing else. The output has medians with quartiles. Compare ratios, not seconds, between two runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.system import processors
from tools.bench import goals, session, tables
from tools.bench.contenders import TITLES
from tools.bench.kinds import KINDS
from tools.bench.series import Cell, Series
from tools.simple_table import as_rst

DEFAULT_SIZES = (2, 4, 8, 32)
DEFAULT_ROUNDS = 15
# Seconds that a cell may cost after its first value: enough for six of upstream's fastest tests.
DEFAULT_BUDGET_S = 20.0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code.

    It is 0 for success, 1 if a cell has only errors, 2 for wrong arguments, and 130 if the run was
    interrupted; what was measured until then is shown.
    """
    arguments = _parser().parse_args(argv)
    plan = session.BenchPlan(
        contenders=[
            c for c in arguments.contenders if arguments.upstream or not c.startswith(tables.UPSTREAM)
        ],
        kinds=arguments.kinds,
        sizes=arguments.sizes,
        rounds=arguments.rounds,
        budget_s=arguments.budget,
    )
    measured: dict[Cell, Series] = {}
    interrupted = False
    try:
        session.run(plan, measured, _progress)
    except KeyboardInterrupt:
        interrupted = True
    _show(measured, rst=arguments.rst)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(_as_json(measured), indent=1) + "\n")
    if interrupted:
        return 130
    return 1 if any(series.errors and not series.values for series in measured.values()) else 0


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="ranks.py",
        description=description,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sizes", type=_sizes, default=DEFAULT_SIZES, metavar="N,N", help="world sizes")
    parser.add_argument("--rounds", type=_count, default=DEFAULT_ROUNDS, help="runs of each cell at most")
    parser.add_argument(
        "--budget",
        type=float,
        default=DEFAULT_BUDGET_S,
        help="seconds a cell may cost after its first value; where that cost more, larger sizes are left out",
    )
    parser.add_argument("--upstream", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--contenders", type=_names(TITLES), default=tuple(TITLES), metavar="NAME,NAME")
    parser.add_argument("--kinds", type=_names(KINDS), default=tuple(KINDS), metavar="NAME,NAME")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every value there")
    parser.add_argument(
        "--rst", action="store_true", help="print the table of medians as RST, for docs/performance.rst"
    )
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: write a whole number above 0")
    return int(text)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(sorted({_count(part) for part in text.split(",")}))


def _names(known: Mapping[str, object]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        wanted = text.split(",")
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(known)}")
        return tuple(name for name in known if name in wanted)

    return parse


def _progress(cell: Cell, series: Series) -> None:
    """Shows one line on standard error, over the last one; nothing if that is not a terminal."""
    if sys.stderr.isatty():
        line = f"{cell.kind} {cell.world_size} {cell.contender}: {len(series.values)} values"
        print(f"\r{line:<70}", end="", file=sys.stderr, flush=True)


def _show(measured: Mapping[Cell, Series], *, rst: bool) -> None:
    if sys.stderr.isatty():
        print(f"\r{'':<70}\r", end="", file=sys.stderr)
    print(", ".join(f"{name} {value}" for name, value in _machine().items()))
    shown = [table for table in (tables.medians(measured), tables.kept(measured)) if table.rows]
    medians = "\n\n".join(as_rst(table) for table in shown)
    if rst:
        print(medians)
        return
    print(f"\n{medians}\n\n{as_rst(tables.spread(measured))}\n")
    for goal in goals.reached(measured):
        print(goal)
    for cell, series in measured.items():
        if series.errors:
            print(f"\n{cell.kind}, {cell.world_size} ranks, {cell.contender}: {series.errors[0]}")


def _machine() -> dict[str, object]:
    return {
        "Python": platform.python_version(),
        "torch": metadata.version("torch"),
        "processors": processors.available(),
        "load": round(os.getloadavg()[0], 1),
    }


def _as_json(measured: Mapping[Cell, Series]) -> dict[str, object]:
    cells = [
        {
            "kind": cell.kind,
            "unit": KINDS[cell.kind].unit,
            "world_size": cell.world_size,
            "contender": cell.contender,
            "values": series.values,
            "errors": series.errors,
        }
        for cell, series in measured.items()
    ]
    return {"version": 1, "machine": _machine(), "cells": cells}


if __name__ == "__main__":
    sys.exit(main())
