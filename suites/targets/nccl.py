"""NCCL on CUDA devices, as its documentation and torch's say what it can do.

It has run on one H100 with torch 2.11, and so only what one rank can show.

::

    python run_tests.py --plugin suites.targets.nccl c10d

Ranks need a device each. Where torch has no NCCL or the machine no device, one line says so.
"""

from __future__ import annotations

from harness.targets import COMPLEX, FLOATS, INTEGERS, Capability, Target, collectives, operations
from harness.targets.target import BOOL, MESSAGES, MOVING
from suites.targets.present import demand

demand("nccl", "cuda")

_NUMBERS = FLOATS | INTEGERS
# torch reduces complex numbers by their parts, so only sums are defined; NCCL has no bitwise reductions.
_REDUCTIONS = {
    "sum": _NUMBERS | COMPLEX,
    "avg": FLOATS,
    "product": _NUMBERS,
    "min": _NUMBERS,
    "max": _NUMBERS,
    "premul_sum": FLOATS - {"bfloat16"},
}

TARGET = Target(
    "nccl",
    "cuda",
    {
        **collectives(_NUMBERS | COMPLEX, _REDUCTIONS),
        **operations((*MOVING, *MESSAGES), _NUMBERS | COMPLEX | BOOL | {"float8_e4m3fn", "float8_e5m2"}),
    },
    # Tags are ignored, a timeout ends the process, and what is sparse or from any source is refused.
    frozenset(Capability)
    - {
        Capability.TAGS,
        Capability.ANY_SOURCE,
        Capability.SPARSE,
        Capability.MONITORED_BARRIER,
        Capability.TIMEOUTS,
    },
)
