"""Replaces the file barrier of the wheel's ``distributed_test.py`` by one that waits with inotify.

The wheel's barrier checks every 0.1 s whether all processes have arrived, twice a test, which takes longer
than most of its tests. This one has the same files, count and deadline, but the kernel wakes it.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

HOME = "torch.testing._internal.distributed.distributed_test"
# From <sys/inotify.h>: a file that was open for writing was closed; a file was renamed into the directory.
_IN_CLOSE_WRITE = 0x00000008
_IN_MOVED_TO = 0x00000080


def install() -> None:
    """Replaces the wheel's barrier if its module is imported.

    The module must not be imported before the test file, which sets the backend that the module reads at
    import.
    """
    module = sys.modules.get(HOME)
    theirs = getattr(module, "Barrier", None)
    if theirs is None or sys.platform != "linux" or getattr(theirs.sync, "__func__", None) is _sync:
        return
    theirs.sync = classmethod(_sync)


def _sync(cls: Any, wait_for: int | None = None, timeout: float = 10) -> None:
    """Returns when ``wait_for`` processes (the world size by default) have called this as often as this one.

    RuntimeError after ``timeout`` seconds.
    """
    import torch.distributed as dist

    cls.barrier_id += 1
    directory = os.path.join(os.environ["TEMP_DIR"], "barrier")
    meet(directory, cls.barrier_id, dist.get_world_size() if wait_for is None else wait_for, timeout)


def meet(directory: str, turn: int, wait_for: int, timeout_s: float) -> None:
    """Writes into ``directory`` that this process has arrived ``turn`` times, and waits for its peers.

    RuntimeError where fewer than ``wait_for`` processes have arrived after ``timeout_s`` seconds.
    """
    deadline = time.monotonic() + timeout_s
    with _closed_files(directory) as events:
        _note(directory, turn)
        poll = select.poll()
        poll.register(events, select.POLLIN)
        while (arrived := _count(directory, turn)) < wait_for:
            left_ms = (deadline - time.monotonic()) * 1000
            if left_ms <= 0:
                raise RuntimeError(f"barrier timeout: {arrived} of {wait_for} came within {timeout_s:g} s")
            if poll.poll(left_ms):
                os.read(events, 65536)


def _note(directory: str, turn: int) -> None:
    """Writes this process's file in one step, so that no reader sees half a number."""
    mine = os.path.join(directory, str(os.getpid()))
    hidden = os.path.join(os.path.dirname(directory), f"arriving-{os.getpid()}")
    with open(hidden, "w") as file:
        file.write(str(turn))
    os.replace(hidden, mine)


def _count(directory: str, turn: int) -> int:
    arrived = 0
    for name in os.listdir(directory):
        with open(os.path.join(directory, name)) as file:
            arrived += int(file.read() or 0) >= turn
    return arrived


@contextmanager
def _closed_files(directory: str) -> Iterator[int]:
    """A descriptor that becomes readable when a file appears or is written in the directory."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    try:
        if libc.inotify_add_watch(fd, os.fsencode(directory), _IN_CLOSE_WRITE | _IN_MOVED_TO) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch", directory)
        yield fd
    finally:
        os.close(fd)
