"""The one base seed of a test run: where it comes from, what it seeds, how a failure names it.

Every test starts from the same seed, in every rank, so that a test draws the same numbers alone, in a
suite, and in whichever order.
"""

from __future__ import annotations

import functools
import os
import random
import sys
from collections.abc import Mapping
from typing import Any

from harness.settings import SEED, Settings

VARIABLE = "HARNESS_SEED"
DEFAULT_SEED = SEED


def base_seed(environ: Mapping[str, str] | None = None) -> int:
    """The seed that ``HARNESS_SEED`` asks for in ``environ`` (this process's by default), else 1234.

    ``harness.errors.UsageError``, a ValueError, where the variable holds no whole number of 32 bits.
    """
    text = (os.environ if environ is None else environ).get(VARIABLE)
    return _seed_in(text) if text else DEFAULT_SEED


@functools.lru_cache(maxsize=16)
def _seed_in(text: str) -> int:
    return Settings.from_environ({VARIABLE: text}).seed


def seed_all(seed: int) -> None:
    """Seed the global generators of ``random``, numpy and torch, the last on every device there is.

    A library that the process has not imported yet is not imported for this: torch starts from a fixed seed
    of its own, numpy from a random one, so a test module that draws from numpy should import it at its top.
    ``seed`` is a whole number of 32 bits, which is what numpy takes.
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
        # torch.manual_seed takes 100 times as long: it notes a stack trace for each kind of device that
        # may come to life later, and here is none.
        torch.default_generator.manual_seed(seed)


@functools.cache
def _has_device() -> bool:
    """Whether torch has a device here beside the CPU. Built for one, it names its type on any machine."""
    torch = sys.modules["torch"]
    kind = torch.accelerator.current_accelerator()
    return kind is not None and torch.get_device_module(kind).device_count() > 0


def reproduction(seed: int) -> str:
    """The line that tells a failure's reader which seed the test ran with, and how to ask for it."""
    return f"seed {seed}: {VARIABLE}={seed}"


def add_reproduction(error: BaseException, seed: int) -> None:
    """Add ``reproduction(seed)`` to what ``error`` shows, once; its type, ``args`` and identity stay.

    It becomes a note (PEP 678), which unittest, pytest and ``traceback`` print under the message. Python 3.10
    prints no notes: there it is appended to the message of an exception whose message is its first argument,
    and an exception that composes its message otherwise stays as it is.
    """
    line = reproduction(seed)
    if hasattr(error, "add_note"):
        if line not in getattr(error, "__notes__", ()):
            error.add_note(line)
    else:
        append_to_message(error, line)


def append_to_message(error: BaseException, line: str) -> None:
    """Append ``line`` to the message of ``error`` if that is its first argument and lacks it."""
    if not error.args or not isinstance(error.args[0], str):
        return
    message = error.args[0]
    if str(error) == message and line not in message:
        error.args = (f"{message}\n{line}", *error.args[1:])
