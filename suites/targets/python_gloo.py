"""The backend ``python_gloo``, a process group in Python, and its target.

::

    python run_tests.py --plugin suites.targets.python_gloo c10d
"""

from __future__ import annotations

from harness.targets import Capability, Target, collectives, operations
from harness.targets.target import (
    BOOL,
    COMPLEX,
    DEFINED_FOR,
    FLOATS,
    INTEGERS,
    MESSAGES,
    MOVING,
    RARE_INTEGERS,
)
from suites.targets.python_group import register

NAME = "python_gloo"

register(NAME)

_NUMBERS = FLOATS | INTEGERS | {"int16"} | BOOL | COMPLEX
_BYTES = _NUMBERS | RARE_INTEGERS | {"float8_e4m3fn", "float8_e5m2"}
_REDUCTIONS = {**DEFINED_FOR, "avg": _NUMBERS - BOOL, "product": _NUMBERS}
# torch itself refuses the product of complex numbers in these, whatever the backend.
_ALL_REDUCE = {**_REDUCTIONS, "product": _NUMBERS - COMPLEX}

TARGET = Target(
    NAME,
    "cpu",
    {
        **collectives(_NUMBERS, _REDUCTIONS),
        **operations(("all_reduce", "all_reduce_coalesced"), _NUMBERS, _ALL_REDUCE),
        **operations((*MOVING, *MESSAGES), _BYTES),
    },
    frozenset(
        {
            Capability.SUB_GROUPS,
            Capability.ASYNCHRONOUS,
            Capability.FUTURES,
            Capability.POINT_TO_POINT,
            Capability.TAGS,
            Capability.ANY_SOURCE,
            Capability.BATCHES,
            Capability.COALESCED_TENSORS,
            Capability.UNEVEN_SPLITS,
            Capability.UNEVEN_LISTS,
            Capability.STACKED_OUTPUTS,
            Capability.OBJECTS,
            Capability.BARRIER,
            Capability.TIMEOUTS,
            Capability.SEQUENCE_NUMBERS,
            Capability.FUNCTIONAL,
            Capability.DDP,
            Capability.FSDP1,
            Capability.INDUCTOR,
        }
    ),
)
