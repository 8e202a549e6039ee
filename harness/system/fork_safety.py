"""Decides whether a process may be forked: one thread, no accelerator context, torch as in a new process.

A fork has only the thread that called it. A server that forks ranks or workers stays at one thread and uses
no accelerator, which these functions check.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings

from harness.system import torch_state
from harness.system.posix import os_threads


def is_clean() -> bool:
    """Whether this process may be forked into a server.

    It has no other thread, no accelerator context, nothing of torch's that a new process would not have, and
    no pytest test under way, whose fixtures, log handlers and recorded warnings a fork would inherit.
    """
    if _in_pytest_test():
        return False
    if threading.active_count() > 1 or _has_accelerator_context() or torch_state.made_here():
        return False
    return fork_keeps_all_threads()


def _in_pytest_test() -> bool:
    """Whether pytest runs a test in this process; its subprocesses inherit the variable, but not pytest."""
    return "PYTEST_CURRENT_TEST" in os.environ and "_pytest.runner" in sys.modules


def leave_pytest() -> None:
    """Gives a fork Python's own hooks back where it inherited those by which pytest collects errors."""
    for module, name in ((sys, "unraisablehook"), (threading, "excepthook")):
        hook = getattr(module, name)
        if str(getattr(getattr(hook, "func", hook), "__module__", "")).startswith("_pytest."):
            setattr(module, name, getattr(module, f"__{name}__"))


def fork_keeps_all_threads() -> bool:
    """Whether a fork would lose no thread: there is only one, or the other threads end before each fork.

    Some thread pools (OpenBLAS's) end their threads before a fork and start them again when needed, others
    (OpenMP's, autograd's) do not, and a fork without them hangs (pytorch/pytorch#17199,
    pytorch/pytorch#2245). A trial fork tells them apart.
    """
    if os_threads() == 1:
        return True
    _trial_fork()
    return os_threads() == 1


def _trial_fork() -> None:
    with warnings.catch_warnings():
        # Python 3.12 and later warn about a fork in a process with threads (python/cpython#100228); whether
        # there are any after a fork is what this one finds out.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    with contextlib.suppress(ChildProcessError):  # this process ignores SIGCHLD, so the kernel reaped it
        os.waitpid(pid, 0)


def _has_accelerator_context() -> bool:
    torch = sys.modules.get("torch")
    devices = [getattr(torch, name, None) for name in ("cuda", "xpu", "hpu", "mtia")] if torch else []
    return any(d is not None and hasattr(d, "is_initialized") and d.is_initialized() for d in devices)
