"""torchcomms under ``torch.distributed``, as its documentation says what it can do. **It has not run.**

::

    python run_tests.py --plugin suites.targets.torchcomms c10d

torch 2.13 makes its groups by it where ``torch.distributed.config.use_torchcomms`` is set, under the
names of the backends that they replace: gloo on the CPU, nccl on CUDA devices. ``--device`` says which.
"""

from __future__ import annotations

import importlib.util

import torch
import torch.distributed as dist

from harness.errors import UsageError
from harness.releases import torch_at_least
from harness.targets import FLOATS, INTEGERS, Capability, Target, collectives
from harness.targets.target import ARITHMETIC, DEFINED_FOR

if importlib.util.find_spec("torchcomms") is None:
    raise UsageError("torchcomms is not installed")
if not torch_at_least("2.13"):
    raise UsageError(f"torch {torch.__version__} has no torch.distributed.config: torchcomms needs 2.13")

dist.config.use_torchcomms = True

_OPERATIONS = collectives(
    FLOATS | INTEGERS, {**{name: DEFINED_FOR[name] for name in ARITHMETIC}, "avg": FLOATS}
)
_CAPABILITIES = frozenset(
    {
        Capability.SUB_GROUPS,
        Capability.SPLIT_GROUP,
        Capability.ASYNCHRONOUS,
        Capability.POINT_TO_POINT,
        Capability.BATCHES,
        Capability.UNEVEN_SPLITS,
        Capability.OBJECTS,
        Capability.BARRIER,
        Capability.DDP,
    }
)

_KINDS = {"gloo": "cpu", **({"nccl": "cuda"} if torch.cuda.device_count() else {})}
TARGETS = tuple(Target(name, kind, _OPERATIONS, _CAPABILITIES) for name, kind in _KINDS.items())
