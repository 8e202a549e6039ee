"""Resets torch.compile's state between tests; keeps dynamo out of harness frames and from work for logs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any


def reset_compiler() -> None:
    """Forgets what torch.compile has compiled and counted; does nothing where dynamo was never imported."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()
        dynamo.utils.counters.clear()


def reset_if_used() -> None:
    """Resets the compiler where something has been compiled since the last reset.

    Otherwise the ninth variant of a function that several tests compile would exceed dynamo's recompile limit
    and silently run in eager mode (pytorch/pytorch#135458, pytorch/pytorch#127487).
    """
    dynamo = sys.modules.get("torch._dynamo")
    utils = getattr(dynamo, "utils", None)
    if utils is not None and utils.counters:
        reset_compiler()


def leave_guards_untimed() -> None:
    """Keeps dynamo from timing the guards of each function that it compiles; needs ``torch._dynamo.guards``.

    For a number that it only logs (``guard_latency_us``, from now on 0) it first empties the processor's
    caches by writing 32 MiB of new memory: 20 to 40 ms, as long as the rest of a small function takes.
    Does nothing on a torch that times none.
    """
    guards = sys.modules["torch._dynamo.guards"]
    if hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = _untimed  # type: ignore[attr-defined]  # known to exist


def _untimed(*_: object) -> float:
    return 0.0


def leave_lines_unnamed() -> None:
    """Keeps dynamo from looking up in which function a line is, where no log wants it.

    Needs ``torch._dynamo.symbolic_convert``. For each call in a graph dynamo makes a text for a log that is
    off by default. The name of the function in it is found by the tokens of the whole source file, in each
    process: 90 ms for ``torch/nn/functional.py``, 165 for ``torch/distributed/_functional_collectives.py``.
    With ``TORCH_LOGS=trace_call`` or ``trace_source`` the names are there. Does nothing on a torch that looks
    up none.
    """
    convert = sys.modules["torch._dynamo.symbolic_convert"]
    logs = [getattr(convert, name, None) for name in ("trace_call_log", "trace_source_log")]
    find = getattr(convert, "get_funcname", None)
    if find is not None and all(logs) and getattr(find, "__module__", "") != __name__:
        convert.get_funcname = _for_logs(find, logs)  # type: ignore[attr-defined]  # known to exist


def _for_logs(find: Callable[[str, int], str | None], logs: list[Any]) -> Callable[[str, int], str | None]:
    """``find`` while one of the logs is on, else a function that finds nothing."""

    def named(filename: str, line: int) -> str | None:
        return find(filename, line) if any(log.isEnabledFor(logging.DEBUG) for log in logs) else None

    return named


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function after making dynamo skip its frame and all that it calls; needs torch.

    Otherwise dynamo would compile the harness's frames around a call that breaks a graph (a module's
    collectives, a wait), and cause graph breaks, recompiles and failures that have nothing to do with the
    test. ``torch._dynamo.disable`` does the same but imports the whole compiler (related:
    pytorch/pytorch#162595).
    """
    dynamo = sys.modules["torch"]._C._dynamo.eval_frame
    skip = dynamo._FrameAction.SKIP
    dynamo.set_code_exec_strategy(function.__code__, dynamo._FrameExecStrategy(skip, skip))
    return function
