"""The faults that this suite is to notice, and the tests that may pass all the same.

python tools/mutants.py spmd
"""

from __future__ import annotations

from suites.compiler_faults import COMPILERS
from suites.planting import Mutant, modules_but
from suites.spmd import dtensor_mutants as dtensors
from suites.spmd import mesh_mutants as meshes
from suites.spmd import train_step_mutants as train_step

MUTANTS: tuple[Mutant, ...] = (*train_step.MUTANTS, *meshes.MUTANTS, *dtensors.MUTANTS, *COMPILERS)
_TABLES = "dtensor_tables functional_collectives layouts redistributions sharded_calls strategies"
TESTS = modules_but("spmd", *_TABLES.split())
SURVIVORS: dict[str, dict[str, str]] = {**train_step.SURVIVORS, **meshes.SURVIVORS, **dtensors.SURVIVORS}
