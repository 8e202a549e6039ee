"""Decides whether a process may be forked: one thread, no accelerator context, the state of a new process.

A fork has only the thread that called it, and all of its parent's state. A server that forks ranks or workers
stays at one thread and uses no accelerator; one that forks ranks begins as a new process would that imports
the test's module.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from harness.system import accelerators, python_state, torch_state, waiting_threads
from harness.system.posix import os_threads

# The exit code of a fork that could not answer.
_FAILED = 2


def is_clean() -> bool:
    """Whether this process may be forked into a server."""
    return not hindrance()


def hindrance() -> str:
    """What keeps this process from being forked into a server, in words; "" where it may be.

    It has no other thread but those of ``waiting_threads``, no accelerator context, nothing of torch's that a
    new process would not have, and no pytest test under way, whose fixtures, log handlers and recorded
    warnings a fork would inherit.
    """
    if _in_pytest_test():
        return "runs a test of pytest"
    if threading.active_count() > 1 + waiting_threads.count():
        names = [each.name for each in threading.enumerate() if each is not threading.main_thread()]
        return f"has started threads ({', '.join(names)})"
    if used := accelerators.in_use():
        return f"has used an accelerator ({', '.join(used)})"
    if torch_state.made_here():
        return "has made process groups, or other state of torch's that a new process has not"
    if not fork_keeps_all_threads():
        return "has started threads of a library"
    return "" if fork_keeps_devices() else "has started an accelerator's runtime"


def _in_pytest_test() -> bool:
    """Whether pytest runs a test in this process; its subprocesses inherit the variable, but not pytest."""
    return "PYTEST_CURRENT_TEST" in os.environ and "_pytest.runner" in sys.modules


class ImportedState:
    """The state that the imports of a process of tests have left, which a new process would have too."""

    def __init__(self) -> None:
        self._python: dict[str, Any] | None = None
        self._torch: dict[str, Any] = {}

    def note(self) -> None:
        """Notes the state of now, while a test's module is imported: each of its test classes does so."""
        self._python, self._torch = python_state.values(), torch_state.of_imports()

    def changed(self) -> tuple[str, ...]:
        """The names of what has been changed since then, or is not as in any new process."""
        if self._python is None:
            return python_state.changed(python_state.values(), None)
        now = torch_state.of_imports()
        torchs = tuple(name for name, value in self._torch.items() if now.get(name) != value)
        return (*python_state.changed(python_state.values(), self._python), *torchs)

    def restore(self) -> None:
        """Drops what was changed since then in this process, a fork, and can be restored."""
        if self._python is not None:
            python_state.restore(self._python)


IMPORTED = ImportedState()


def begins_as_new() -> bool:
    """Whether a fork of this process begins as a new process would that imports the test's module."""
    return is_clean() and not IMPORTED.changed()


def fork_keeps_all_threads() -> bool:
    """Whether a fork would lose no thread that it needs: the others wait, or end before each fork.

    Some thread pools (OpenBLAS's) end their threads before a fork and start them again when needed, others
    (OpenMP's, autograd's) do not, and a fork without them hangs (pytorch/pytorch#17199,
    pytorch/pytorch#2245). A trial fork tells them apart.
    """
    if _one_thread():
        return True
    _trial_fork()
    return _one_thread()


def _one_thread() -> bool:
    """Whether this process has no other thread, by the operating system's count, but those that wait."""
    return os_threads() == 1 + waiting_threads.count()


@contextlib.contextmanager
def without_fork_warning() -> Iterator[None]:
    """The region of a fork beside threads that do not hinder it.

    Python 3.12 and later warn about any (python/cpython#100228).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def fork_keeps_devices() -> bool:
    """Whether a fork could use the accelerators that are here.

    Counting devices may start their runtime (``torch.cuda.is_available``), after which no fork can use it.
    Nothing tells so in this process: a trial fork does. Without accelerators there is none.
    """
    questions = accelerators.questions_for_a_fork()
    return not questions or not _trial_fork(lambda: any(ask() for ask in questions))


def _trial_fork(question: Callable[[], bool] = lambda: False) -> bool:
    """Forks, and returns what the fork answers."""
    with without_fork_warning():  # whether there are threads after a fork is what this one finds out
        pid = os.fork()
    if pid == 0:
        answer = _FAILED
        try:
            answer = int(question())
        finally:
            os._exit(answer)
    with contextlib.suppress(ChildProcessError):  # this process ignores SIGCHLD, so the kernel reaped it
        return bool(os.waitpid(pid, 0)[1])
    return False
