"""What a target does with its device where its author says nothing: torch's own module for the device type.

Each function takes the device type first. They import torch when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# By device type, the variable that says which devices a process sees, read when it first uses one.
VISIBLE: Mapping[str, str] = {
    "cuda": "CUDA_VISIBLE_DEVICES",
    "xpu": "ZE_AFFINITY_MASK",
    "npu": "ASCEND_RT_VISIBLE_DEVICES",
}


def unset(*arguments: object) -> Any:
    """Stands for a function that a target's author has not given; never called."""
    raise AssertionError(arguments)


def set_device(device_type: str, index: int) -> None:
    """Makes the device of this index the current one; nothing on the CPU."""
    import torch

    torch.get_device_module(device_type).set_device(index)


def synchronize(device_type: str) -> None:
    """Returns when the current device has done all that it was given, or raises what has failed there."""
    import torch

    torch.get_device_module(device_type).synchronize()


def device_count(device_type: str) -> int:
    """The number of devices of this type; 1 for the CPU, which all ranks share."""
    import torch

    return int(torch.get_device_module(device_type).device_count())


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "set_device": set_device,
    "synchronize": synchronize,
    "device_count": device_count,
}
