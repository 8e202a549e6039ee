"""The base seed of a test run: reads it, seeds the generators with it, and adds it to a failure's message.

Every test starts from the same seed in every rank, so that it draws the same numbers alone, in a suite and
in any order.
"""

from __future__ import annotations

import functools
import os
import random
import sys
from collections.abc import Mapping
from typing import Any

from harness.settings import SEED, EnvVar, Settings


def base_seed(environ: Mapping[str, str] | None = None) -> int:
    """The value of ``HARNESS_SEED`` in ``environ`` (by default this process's), else 1234.

    ``harness.errors.UsageError``, a ValueError, where the value is not a whole number of 32 bits.
    """
    text = (os.environ if environ is None else environ).get(EnvVar.SEED)
    return _seed_in(text) if text else SEED


@functools.lru_cache(maxsize=16)
def _seed_in(text: str) -> int:
    return Settings.from_environ({EnvVar.SEED: text}).seed


def seed_all(seed: int) -> None:
    """Seeds the global generators of ``random``, numpy and torch, those of torch on every device.

    A library that the process has not imported yet is not imported and not seeded. torch then starts from a
    fixed seed of its own, but numpy from a random one: a test module that draws from numpy should import it
    at its top. ``seed`` is a whole number of 32 bits, because numpy accepts no more.
    """
    random.seed(seed)
    if "numpy" in sys.modules:
        import numpy.random

        numpy.random.seed(seed)
    torch = sys.modules.get("torch")
    # A torch that is still being imported has no generator yet.
    if torch is not None and hasattr(torch, "default_generator"):
        _seed_torch(torch, seed)


def _seed_torch(torch: Any, seed: int) -> None:
    if _has_device():
        torch.manual_seed(seed)
    else:
        # torch.manual_seed takes 100 times as long: it keeps a stack trace for each device type that may be
        # initialised later (related: pytorch/pytorch#55768), and this machine has no such device.
        torch.default_generator.manual_seed(seed)


@functools.cache
def _has_device() -> bool:
    """Whether this machine has an accelerator that torch can use.

    ``current_accelerator`` alone does not show that: a torch build for a device type names it on any machine.
    """
    torch = sys.modules["torch"]
    kind = torch.accelerator.current_accelerator()
    return kind is not None and torch.get_device_module(kind).device_count() > 0


def reproduction(seed: int) -> str:
    """The line of a failure's message with the seed of the test and the variable that sets it."""
    return f"seed {seed}: {EnvVar.SEED}={seed}"


def add_reproduction(error: BaseException, seed: int) -> None:
    """Adds ``reproduction(seed)`` to ``error`` once, as a note (PEP 678).

    unittest, pytest and ``traceback`` print notes under the message. Python 3.10 has no notes: there the line
    is appended to the message, if that is the exception's first argument. Other exceptions stay as they are.
    """
    line = reproduction(seed)
    if hasattr(error, "add_note"):
        if line not in getattr(error, "__notes__", ()):
            error.add_note(line)
    else:
        append_to_message(error, line)


def append_to_message(error: BaseException, line: str) -> None:
    """Appends ``line`` to the message of ``error``, if that is its first argument and lacks the line."""
    if not error.args or not isinstance(error.args[0], str):
        return
    message = error.args[0]
    if str(error) == message and line not in message:
        error.args = (f"{message}\n{line}", *error.args[1:])
