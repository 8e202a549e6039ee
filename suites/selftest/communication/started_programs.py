"""The cases of all programs on ranks that the harness starts: fresh and pooled ranks, and threads."""

from __future__ import annotations

from typing import Any

from suites.selftest.communication.program_cases import FreshRanks, PooledRanks, RanksOnThreads, cases_of
from suites.selftest.communication.programs.program import FRESH, POOLED, THREADS, Program
from suites.selftest.communication.programs.table import PROGRAMS

_BASES: dict[str, type[Any]] = {FRESH: FreshRanks, POOLED: PooledRanks, THREADS: RanksOnThreads}
for _mode, _base in _BASES.items():
    globals().update(cases_of(__name__, _mode, _base, PROGRAMS))


def case_of(program: Program, mode: str) -> type[Any]:
    """Returns the case that has a test for the program in a rank mode."""
    case: type[Any] = globals()[f"{_BASES[mode].__name__}{program.world_size}"]
    return case
