"""Whether a process may be forked: a fork has only the thread that forks, and no accelerator's context.

A server that ranks or workers are forked from stays at one thread and touches no accelerator; these are the
questions by which that is checked.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings

from harness.system.posix import os_threads


def is_clean() -> bool:
    """True where this process may be forked into a server: a fork misses no thread and no accelerator."""
    return threading.active_count() == 1 and not _has_accelerator_context() and misses_no_thread()


def misses_no_thread() -> bool:
    """True where a fork misses no thread: there is one, or the others are of pools that end before a fork.

    Some pools (OpenBLAS's) end their threads before a fork and start them again when needed; a trial fork
    tells them from those (OpenMP's, autograd's) that would be missing in the child.
    """
    if os_threads() == 1:
        return True
    _trial_fork()
    return os_threads() == 1


def _trial_fork() -> None:
    with warnings.catch_warnings():
        # Python 3.12 and later warn of a fork beside threads, which is what this one is to find out about.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _has_accelerator_context() -> bool:
    torch = sys.modules.get("torch")
    devices = [getattr(torch, name, None) for name in ("cuda", "xpu", "hpu", "mtia")] if torch else []
    return any(d is not None and hasattr(d, "is_initialized") and d.is_initialized() for d in devices)
