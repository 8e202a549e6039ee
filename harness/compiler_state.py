"""What torch.compile keeps in a process from test to test, and what of the harness it is to pass by."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


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


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose frames dynamo leaves alone with all that it calls; needs torch.

    Otherwise it would compile the harness's own frames around a call that breaks a graph (a module's
    collectives, a wait): graph breaks, recompiles and failures that are not the test's.
    ``torch._dynamo.disable`` does the same, and imports the compiler.
    """
    dynamo = sys.modules["torch"]._C._dynamo.eval_frame
    skip = dynamo._FrameAction.SKIP
    dynamo.set_code_exec_strategy(function.__code__, dynamo._FrameExecStrategy(skip, skip))
    return function
