"""What torch.compile keeps in a process from one test to the next, and how that is forgotten."""

from __future__ import annotations

import sys


def reset_compiler() -> None:
    """Forgets what torch.compile compiled and counted, where it has been imported at all."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()
        dynamo.utils.counters.clear()


def reset_if_used() -> None:
    """The same, where something has been compiled: the ninth variant of a function that several tests compile
    would otherwise meet dynamo's limit, and run in eager without a word."""
    dynamo = sys.modules.get("torch._dynamo")
    utils = getattr(dynamo, "utils", None)
    if utils is not None and utils.counters:
        reset_compiler()
