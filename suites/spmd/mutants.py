"""The faults that this suite is to notice, and the tests that may pass all the same.

python tools/mutants.py spmd
"""

from __future__ import annotations

from suites.compiler_faults import COMPILERS
from suites.planting import Mutant
from suites.spmd import dtensor_mutants as dtensors
from suites.spmd import mesh_mutants as meshes
from suites.spmd import train_step_mutants as train_step

MUTANTS: tuple[Mutant, ...] = (*train_step.MUTANTS, *meshes.MUTANTS, *dtensors.MUTANTS, *COMPILERS)
_NUMBERS = {"*.LayoutsTest.test_part_*": "looks at how results lie and what is moved, not at numbers"}
_OWN = {**train_step.SURVIVORS, **meshes.SURVIVORS, **dtensors.SURVIVORS}
SURVIVORS: dict[str, dict[str, str]] = {
    mutant.name: {**_OWN.get(mutant.name, {}), **_NUMBERS} for mutant in MUTANTS
}
