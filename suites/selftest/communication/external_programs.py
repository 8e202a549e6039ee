"""The cases of programs on ranks that a launcher started, and what such a process runs.

Only modules of programs that import little: each process of a job imports all of them.
"""

from __future__ import annotations

from typing import NoReturn

from suites.selftest.communication.program_cases import FreshRanks, cases_of
from suites.selftest.communication.programs import arguments, messages, ordering, right_waits, stores
from suites.selftest.communication.programs.program import EXTERNAL, Program, by_name
from suites.selftest.ranks.external.bodies import run_and_write

_TABLES = (ordering.TABLE, messages.TABLE, stores.TABLE, arguments.TABLE, right_waits.TABLE)
PROGRAMS = {name: program for name, program in by_name(*_TABLES).items() if EXTERNAL in program.modes}
globals().update(cases_of(__name__, EXTERNAL, FreshRanks, PROGRAMS))


def method_name(program: Program) -> str:
    """Returns the name of a program's test in this module."""
    return f"{FreshRanks.__name__}{program.world_size}.test_{program.name}"


def main(results: str, *names: str) -> NoReturn:
    """Runs tests of this module, writes their verdicts to ``results`` and ends the process."""
    run_and_write(__name__, results, names)
