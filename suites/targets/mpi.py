"""MPI on the CPU, as torch's documentation and the tables of its process group say. **It has not run.**

::

    mpirun -n 4 python run_tests.py --plugin suites.targets.mpi c10d

MPI itself starts the ranks and knows how many there are. Only torch that was built from source has it.
"""

from __future__ import annotations

from harness.targets import Capability, Target, operations
from suites.targets.present import demand

demand("mpi")

# What torch has MPI's types and reductions for.
_DTYPES = frozenset({"uint8", "int8", "int16", "int32", "int64", "float32", "float64"})
_OPERATIONS = (
    *("broadcast", "scatter", "gather", "all_gather", "all_to_all", "all_to_all_single"),
    *("all_reduce", "reduce", "send", "recv"),
)

TARGET = Target(
    "mpi",
    "cpu",
    operations(_OPERATIONS, _DTYPES),
    frozenset(
        {
            Capability.SUB_GROUPS,
            Capability.ASYNCHRONOUS,
            Capability.POINT_TO_POINT,
            Capability.TAGS,
            Capability.ANY_SOURCE,
            Capability.UNEVEN_SPLITS,
            Capability.BARRIER,
        }
    ),
)
