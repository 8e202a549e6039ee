"""Lists the process-wide state that each rank thread has its own copy of, and switches it between ranks.

Each item is a pair of functions that read and write it. ``RankStates`` keeps one value per rank, writes it
when the rank gets the run token, and restores the parent's values after the test.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.system import originals


@dataclass(frozen=True, slots=True)
class StateItem:
    """One piece of process-wide state. ``write`` gets the wanted value and the current one.

    ``begin`` makes a rank's first value from the rank and the parent's value: a copy where tests change the
    value in place.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any, Any], None]
    begin: Callable[[int, Any], Any] = lambda rank, value: value


class RankStates:
    """The values of all ranks, which start as the parent's."""

    def __init__(self, world_size: int) -> None:
        self._items = items()
        self._parents = [item.read() for item in self._items]
        self._kept: dict[int | None, list[Any]] = {
            rank: [i.begin(rank, v) for i, v in zip(self._items, self._parents, strict=True)]
            for rank in range(world_size)
        }
        self._placed: int | None = None

    def switch(self, rank: int | None) -> None:
        """Saves the current values for the rank that they belong to, and writes those of ``rank``.

        None stands for the parent, whose values stay as they were when this object was made.
        """
        if rank == self._placed:
            return
        now = [item.read() for item in self._items]
        if self._placed is not None:
            self._kept[self._placed] = now
        wanted = self._parents if rank is None else self._kept[rank]
        for item, value, placed in zip(self._items, wanted, now, strict=True):
            item.write(value, placed)
        self._placed = rank

    def restore(self) -> None:
        """Writes the parent's values, whichever rank's are in place."""
        for item, value in zip(self._items, self._parents, strict=True):
            item.write(value, item.read())
        self._placed = None


def items() -> list[StateItem]:
    """The pieces of state that exist in this process now: a module that is not imported has none."""
    found = [
        StateItem("random", random.getstate, lambda value, _: random.setstate(value)),
        StateItem("environment", _environ, _set_environ),
        StateItem("working directory", _cwd, _chdir),
        StateItem("warning filters", lambda: warnings.filters, _set_filters, lambda _, value: list(value)),
        _attribute(warnings, "showwarning"),
        _attribute(warnings, "_showwarnmsg_impl"),
        _attribute(sys, "stdout"),
        _attribute(sys, "stderr"),
        StateItem("builtins and standard functions", originals.patched, _set_patches),
    ]
    if "numpy.random" in sys.modules:
        found.append(_numpy())
    if "torch" in sys.modules:
        found += _torch(sys.modules["torch"])
    tensor = sys.modules.get("torch.distributed.tensor._random")
    if tensor is not None:
        found.append(_attribute(tensor, "_rng_tracker"))
    return found


def _attribute(owner: Any, name: str) -> StateItem:
    def write(value: Any, now: Any) -> None:
        if value is not now:
            setattr(owner, name, value)

    return StateItem(name, lambda: getattr(owner, name, None), write)


def _setting(name: str, read: Callable[[], Any], write: Callable[[Any], object]) -> StateItem:
    def write_if_changed(value: Any, now: Any) -> None:
        if value != now:
            write(value)

    return StateItem(name, read, write_if_changed)


def _torch(torch: Any) -> list[StateItem]:
    generator = torch.default_generator
    return [
        StateItem("torch's generator", generator.get_state, lambda value, _: generator.set_state(value)),
        _setting("default dtype", torch.get_default_dtype, torch.set_default_dtype),
        _setting(
            "deterministic algorithms",
            lambda: (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
            ),
            lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]),
        ),
        _setting("warn-always", torch.is_warn_always_enabled, torch.set_warn_always),
        _setting("matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        _setting("anomaly mode", torch.is_anomaly_enabled, lambda on: torch.autograd.set_detect_anomaly(on)),
    ]


def _numpy() -> StateItem:
    """numpy's global generator.

    Ranks swap its bit generators, which is 200 times as fast as copying its state. The second number of the
    pair that ``randn`` draws is lost at a switch.
    """
    numpy_random: Any = sys.modules["numpy.random"]
    if not hasattr(numpy_random, "set_bit_generator"):  # numpy before 1.24
        return StateItem("numpy", numpy_random.get_state, lambda value, _: numpy_random.set_state(value))

    def write(value: Any, now: Any) -> None:
        if value is not now:
            numpy_random.set_bit_generator(value)

    return StateItem("numpy", numpy_random.get_bit_generator, write, lambda rank, _: _bit_generator(rank))


@functools.cache
def _bit_generator(rank: int) -> Any:
    """A rank's bit generator, cached because making one is slow; every rank seeds it before use."""
    import numpy.random

    return numpy.random.MT19937(rank)


def _environ() -> dict[Any, Any]:
    # Copying the undecoded dictionary takes a tenth of the time of os.environ.copy().
    data = getattr(os.environ, "_data", None)
    return dict(data) if data is not None else os.environ.copy()


def _set_environ(value: dict[Any, Any], now: dict[Any, Any]) -> None:
    if value == now:
        return
    for name in now.keys() - value.keys():
        os.environ.pop(_text(name), None)
    for name, text in value.items():
        if now.get(name) != text:
            os.environ[_text(name)] = _text(text)


def _text(raw: Any) -> str:
    return os.fsdecode(raw)


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _chdir(value: str | None, now: str | None) -> None:
    if value is not None and value != now:
        with contextlib.suppress(OSError):  # removed meanwhile: the rank gets the error when it uses it
            os.chdir(value)


def _set_patches(value: tuple[originals.Patch, ...], now: tuple[originals.Patch, ...]) -> None:
    if value != now:
        originals.restore()
        originals.apply(value)


def _set_filters(value: list[Any], now: list[Any]) -> None:
    if value is now:
        return
    warnings.filters = value
    if value != now:
        # The interpreter does not notice a changed filter list by itself: only functions like resetwarnings
        # update the version of the filters that it checks (related: python/cpython#73858).
        content = list(value)
        warnings.resetwarnings()
        value[:] = content
