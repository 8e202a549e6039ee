"""The faults that this suite is to notice, and the tests that may pass all the same.

python tools/mutants.py c10d
"""

from __future__ import annotations

from suites.c10d.faults.collectives import BARRIERS, COALESCED
from suites.c10d.faults.ddp import DDP_FAULTS
from suites.c10d.faults.groups import GROUPS, HANDLES, OBJECTS
from suites.c10d.faults.moves import MOVES
from suites.c10d.faults.reductions import REDUCTIONS
from suites.c10d.faults.stores import STORES
from suites.c10d.survivors import SURVIVORS
from suites.planting import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *REDUCTIONS,
    *MOVES,
    *COALESCED,
    *BARRIERS,
    *HANDLES,
    *OBJECTS,
    *GROUPS,
    *STORES,
    *DDP_FAULTS,
)

__all__ = ["MUTANTS", "SURVIVORS"]
