"""The faults that this suite is to notice, and the tests that may pass all the same.

python tools/mutants.py aot
"""

from __future__ import annotations

from suites.aot.faults.entries import ENTRIES
from suites.aot.faults.graphs import GRAPHS
from suites.aot.faults.runtime import RUNTIME
from suites.planting import Mutant

MUTANTS: tuple[Mutant, ...] = (*ENTRIES, *GRAPHS, *RUNTIME)
SURVIVORS: dict[str, dict[str, str]] = {}
