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
TESTS = modules_but(
    "spmd",
    *(
        "dtensor_tables",
        "functional_collectives",
        "layouts",
        "redistributions",
        "sharded_calls",
        "strategies",
    ),
)
# Tests that execute what is moved, and look at something else.
_ASIDE = {
    "*.ChoicesOnLocalTensorsTest.test_the_smaller_one_is_moved": "looks at placements",
    "*.EntryOnPooledRanksTest.test_distributed_parameters": "looks at gradients, which are all the same",
    "*.EntryOnPooledRanksTest.test_what_is_not_distributed": "looks at what is refused",
    "*.LayersOnPooledRanksTest.test_frozen_parameters": "looks at who wants a gradient",
    "*.ParallelLossesOnPooledRanksTest.test_the_region": "looks at whether classes are gathered",
    "*.PlansOnPooledRanksTest.test_names": "looks at names",
    "*.WayOnPooledRanksTest.test_equality": "all ranks have the tensor that is distributed",
    "*.WayOnPooledRanksTest.test_gradients_of_wholes": "looks at gradients, in which the tensor has no part",
    "*.WayOnPooledRanksTest.test_redistribute_in_another_dtype": "all elements are the same",
    "*.WayOnPooledRanksTest.test_where_a_checkpoint_puts_parts": "looks at offsets and sizes",
}
_MOVING = (*meshes.MUTANTS, *dtensors.MUTANTS)
SURVIVORS: dict[str, dict[str, str]] = {
    **train_step.SURVIVORS,
    **{
        mutant.name: {
            **meshes.SURVIVORS.get(mutant.name, {}),
            **dtensors.SURVIVORS.get(mutant.name, {}),
            **_ASIDE,
        }
        for mutant in _MOVING
    },
}
