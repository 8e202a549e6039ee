"""``torch.hostmem``: what torch, and code for any accelerator, looks for in the module of a device type."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from torch import Event as Event

NAME = "hostmem"

# As in torch's own modules: an index, a name, a device, or the current one.
Device: TypeAlias = "torch.device | str | int | None"

_ops = torch.ops.hostmem


def is_available() -> bool:
    """Whether there is a device."""
    return device_count() > 0


def is_initialized() -> bool:
    """Whether this process has used a device."""
    return bool(_ops.is_initialized())


def _is_in_bad_fork() -> bool:
    return bool(_ops.is_in_bad_fork())


def device_count() -> int:
    """The number of devices that this process sees.

    ``HOSTMEM_DEVICES`` says how many the machine has, 4 if it is not set, and ``HOSTMEM_VISIBLE_DEVICES``
    which of them the process sees. A process that has used one does not ask again.
    """
    return int(_ops.device_count())


def physical_device(device: Device = None) -> int:
    """Which of the machine's devices one of this process is."""
    return int(_ops.physical_device(_index(device)))


def current_device() -> int:
    """The index of this thread's device."""
    return int(torch.accelerator.current_device_index())


def set_device(device: Device) -> None:
    """Makes the device that of this thread."""
    torch.accelerator.set_device_index(_index(device))


class device:  # as torch's modules name it
    """Makes a device that of this thread within a region."""

    def __init__(self, device: Device) -> None:
        self._index = _index(device)

    def __enter__(self) -> None:
        self._before = current_device()
        set_device(self._index)

    def __exit__(self, *error: object) -> None:
        set_device(self._before)


def synchronize(device: Device = None) -> None:
    """Waits for a device; an error that its kernels have left is raised.

    ``torch.accelerator.synchronize`` does nothing on such a device before torch 2.12.
    """
    _ops.synchronize(_index(device))


def Stream(device: Device = None, priority: int = 0) -> torch.Stream:  # a class elsewhere
    """A new stream of a device."""
    return torch.Stream(torch.device(NAME, _index(device)), priority=priority)


def current_stream(device: Device = None) -> torch.Stream:
    """This thread's stream on a device."""
    return torch.accelerator.current_stream(_index(device))


def set_stream(stream: torch.Stream) -> None:
    """Makes the stream this thread's, and its device too."""
    torch.accelerator.set_stream(stream)


@contextlib.contextmanager
def stream(stream: torch.Stream | None) -> Iterator[None]:
    """Makes the stream this thread's within; nothing for None."""
    if stream is None:
        yield
        return
    with stream:
        yield


def memory_allocated(device: Device = None) -> int:
    """The bytes of a device that tensors take."""
    return int(_ops.memory_allocated(_index(device)))


def fail_later(message: str) -> None:
    """Fails as a kernel does: the error is raised by what next waits for this thread's stream."""
    _ops.fail_later(message)


def manual_seed(seed: int) -> None:
    """Seeds this thread's device."""
    _generator(None).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds all devices."""
    for index in range(device_count()):
        _generator(index).manual_seed(seed)


def initial_seed() -> int:
    """The seed of this thread's device."""
    return int(_generator(None).initial_seed())


def get_rng_state(device: Device = None) -> torch.Tensor:
    """The state of a device's generator of random numbers."""
    state: torch.Tensor = _generator(device).get_state()
    return state


def set_rng_state(state: torch.Tensor, device: Device = None) -> None:
    """Sets the state of a device's generator of random numbers."""
    _generator(device).set_state(state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that autocast may use."""
    return [torch.float16, torch.bfloat16]


def _generator(device: Device) -> Any:
    return _ops.default_generator(_index(device))


def _index(device: Device) -> int:
    if device is None:
        return current_device()
    index = device if isinstance(device, int) else torch.device(device).index
    return current_device() if index is None else index
