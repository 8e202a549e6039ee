"""UCC on the CPU and on CUDA devices, as the tables of torch's process group say. **It has not run.**

::

    python run_tests.py --plugin suites.targets.ucc --device cuda c10d

Only torch that was built from source has it.
"""

from __future__ import annotations

import torch

from harness.targets import FLOATS, INTEGERS, Capability, Target, collectives
from harness.targets.target import ARITHMETIC, BOOL
from suites.targets.present import demand

demand("ucc")

_OPERATIONS = collectives(FLOATS | INTEGERS | BOOL, (*ARITHMETIC, "avg", "band", "bor", "bxor"))
# Its group has no method for these.
for _name in ("all_gather_coalesced", "all_reduce_coalesced"):
    del _OPERATIONS[_name]
_CAPABILITIES = frozenset(
    {
        Capability.SUB_GROUPS,
        Capability.ASYNCHRONOUS,
        Capability.FUTURES,
        Capability.POINT_TO_POINT,
        Capability.TAGS,
        Capability.UNEVEN_SPLITS,
        Capability.OBJECTS,
        Capability.BARRIER,
        Capability.SEQUENCE_NUMBERS,
        Capability.DDP,
        Capability.FSDP1,
        Capability.INDUCTOR,
    }
)

_KINDS = ("cpu", "cuda") if torch.cuda.device_count() else ("cpu",)
TARGETS = tuple(Target("ucc", kind, _OPERATIONS, _CAPABILITIES) for kind in _KINDS)
