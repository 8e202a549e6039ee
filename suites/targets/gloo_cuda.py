"""gloo on CUDA devices, of which several ranks may share one: what a machine with a single GPU can try.

::

    python run_tests.py --plugin suites.targets.gloo_cuda c10d fsdp spmd

gloo copies to the memory of the CPU and back. What it takes was tried out with torch 2.11 on an H100
(``torch-harness target new gloo --device cuda``): no calls on lists of tensors, and no messages, whose
buffers it reads as if they were the CPU's, which ends the process. So does the all_gather of functional
collectives, which is such a call on lists: DTensors cannot be put together. All suites have run there.
"""

from __future__ import annotations

from harness.targets import COMPLEX, FLOATS, INTEGERS, Capability, Target, operations
from harness.targets.target import BOOL, DEFINED_FOR
from suites.targets.present import demand

demand("gloo", "cuda")

_EVERY = FLOATS | INTEGERS | BOOL | COMPLEX
_REDUCTIONS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")

TARGET = Target(
    "gloo",
    "cuda",
    {
        **operations(
            ("broadcast", "scatter", "all_gather", "all_gather_into_tensor", "all_to_all_single"), _EVERY
        ),
        **operations(("gather",), _EVERY - COMPLEX),
        **operations(
            ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"),
            _EVERY,
            {name: DEFINED_FOR[name] for name in _REDUCTIONS},
        ),
    },
    frozenset(Capability)
    - {
        Capability.SPLIT_GROUP,
        Capability.POINT_TO_POINT,
        Capability.TAGS,
        Capability.ANY_SOURCE,
        Capability.BATCHES,
        Capability.COALESCING,
        Capability.COALESCED_TENSORS,
        Capability.UNEVEN_LISTS,
        Capability.STACKED_OUTPUTS,
        Capability.FUNCTIONAL,
    },
    ranks_per_device=16,
)
