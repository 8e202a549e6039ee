"""Which device type, backend and number of ranks a case takes on this machine when nobody says."""

from __future__ import annotations

from harness.requirements import probe
from harness.requirements.machine import UNCOUNTED_DEVICE_TYPES

# Upstream's number of ranks of a DTensor test: enough for a 2 x 2 mesh.
MOST_RANKS = 4


def accelerator() -> tuple[str, int]:
    """(device type, number of devices) that a distributed test can use; ("cpu", 0) without an accelerator."""
    counted = [a for a in probe().accelerators if a[0] not in UNCOUNTED_DEVICE_TYPES]
    return counted[0] if counted else ("cpu", 0)


def num_devices() -> int:
    """The ranks of a DTensor test: 4, or as many as there are devices where that is 2 or 3.

    Source: ``NUM_DEVICES`` of upstream's ``common_dtensor``.
    """
    _, count = accelerator()
    most = min(MOST_RANKS, max(2, count)) if probe().rocm else MOST_RANKS
    return min(most, count) if count > 1 else most


def device_type_for(world_size: int) -> str:
    """The accelerator's type where each of that many ranks can have one, else ``"cpu"``."""
    kind, count = accelerator()
    return kind if count >= world_size else "cpu"


def backend_for(device_type: str) -> str:
    """The collective backend that torch takes for a device type: gloo for the CPU, nccl for CUDA."""
    import torch.distributed as dist

    return str(dist.get_default_backend_for_device(device_type))
