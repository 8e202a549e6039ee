"""Loads the machine beside a run of tests: processes that take processor time, memory and the disk."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator

import psutil

from harness.system import posix

# At most so much memory is touched, in bytes, and at most this part of what is available.
TOUCHED_BYTES, TOUCHED_PART = 2 << 30, 0.25
# Bytes between two waits for the disk: more than its own cache takes at once.
WRITTEN_BYTES = 64 << 20


@contextlib.contextmanager
def machine_load(*, loops: int, memory: bool, disk: bool) -> Iterator[None]:
    """Has that many busy loops run, a process that touches and releases memory, one that waits for the disk.

    The processes end with the context, and with the thread that entered it. There should be no other thread,
    since they are forks.
    """
    bodies = [_spin] * loops + [_touch] * memory + [_write] * disk
    processes = [multiprocessing.get_context("fork").Process(target=_child, args=(body,)) for body in bodies]
    try:
        for process in processes:
            process.start()
        yield
    finally:
        for process in processes:
            if process.pid is not None:
                process.kill()
                process.join()


def _child(body: Callable[[], None]) -> None:
    # Linux may share processors out among sessions first (sched_autogroup): all loops of one session would
    # take no more than one. And Ctrl-C in the terminal's session is for the process that ends this one.
    os.setsid()
    posix.die_with_parent(signal.SIGKILL)
    body()


def _spin() -> None:
    while True:
        pass


def _touch() -> None:
    size = min(TOUCHED_BYTES, int(TOUCHED_PART * psutil.virtual_memory().available))
    while True:
        touched = b"\1" * size
        del touched


def _write() -> None:
    block = os.urandom(1 << 20)
    with tempfile.TemporaryFile(buffering=0) as file:
        while True:
            file.seek(0)
            for _ in range(WRITTEN_BYTES // len(block)):
                file.write(block)
            os.fsync(file.fileno())
