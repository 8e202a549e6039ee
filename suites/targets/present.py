"""``demand``: says in one line why a target's backend or device cannot be tested here."""

from __future__ import annotations

import torch
import torch.distributed as dist

from harness.errors import UsageError


def demand(backend: str, device_type: str = "cpu") -> None:
    """UsageError where this torch has not the backend, or this machine no device of the type."""
    if not dist.is_backend_available(backend):
        raise UsageError(f"this torch ({torch.__version__}) is built without {backend.upper()}")
    if device_type != "cpu" and torch.get_device_module(device_type).device_count() == 0:
        raise UsageError(f"this machine has no {device_type} device that torch {torch.__version__} can use")
