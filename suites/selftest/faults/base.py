"""``FaultyCase``, the base class of the faulty cases: its ranks wait for each other without sleeping.

It imports no torch, so that a rank of the spawn launcher starts in a tenth of a second.
"""

from __future__ import annotations

import contextlib
import glob
import os
import select
import signal
import time
from collections.abc import Callable
from typing import NoReturn

from harness import MultiProcessTestCase
from harness.ranks.processes.mode import FreshRanks

__unittest = True  # as in the harness, so that a traceback in a verdict shows no frame of this file

# Seconds for ranks to reach the point that a test is about. Far above what a loaded machine needs: only a
# broken self-test waits this long.
ARRIVAL_S = 60.0
# Names the FIFO on which ranks announce process ids to the self-test that runs them in another process.
ANNOUNCE = "HARNESS_FAULTS_FIFO"


class FaultyCase(MultiProcessTestCase):
    """A case of two ranks that synchronise through FIFOs.

    ``arrivals`` is the number of ranks that call ``arrive`` before the test's deadline starts to run: a test
    about a hang needs a short deadline, and the time that ranks take to start must not count against it.
    """

    world_size = 2
    arrivals = 0

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(_remove_all, f"{self.file_name}.*")

    def _join_processes(self, fn: Callable[..., object]) -> None:
        if self.arrivals:
            fifo = self._fifo("arrivals")
            reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
            try:
                self._spawn_processes()
                _read_bytes(reader, self.arrivals)
            finally:
                os.close(reader)
            assert isinstance(self._running, FreshRanks), self._running
            self._running.started = time.monotonic()
        super()._join_processes(fn)

    def arrive(self) -> None:
        """Called in a rank: tells the parent that this rank has arrived, so that the deadline may start."""
        _tell(self._fifo("arrivals"), b"!")

    def tell(self, point: str, word: str = "") -> None:
        """Called in a rank: sends ``word`` and returns once another rank hears this point."""
        _tell(self._fifo(point), word.encode())

    def hear(self, point: str) -> str:
        """Called in a rank: waits until another rank tells this point, and returns its word."""
        with open(self._fifo(point), "rb") as fifo:
            return fifo.read().decode()

    def _fifo(self, name: str) -> str:
        path = f"{self.file_name}.{name}"
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path)
        return path


def hang() -> NoReturn:
    """Called in a rank: never returns."""
    while True:
        signal.pause()


def announce(*pids: int) -> None:
    """Called in a rank: sends process ids to the self-test that runs the whole test in another process."""
    _tell(os.environ[ANNOUNCE], (" ".join(map(str, pids)) + "\n").encode())


def _remove_all(pattern: str) -> None:
    for path in glob.glob(pattern):
        os.remove(path)


def _tell(path: str, data: bytes) -> None:
    fifo = os.open(path, os.O_WRONLY)  # waits until a reader has opened it
    os.write(fifo, data)
    os.close(fifo)


def _read_bytes(fd: int, count: int) -> None:
    deadline = time.monotonic() + ARRIVAL_S
    while count > 0:
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"{count} ranks did not arrive within {ARRIVAL_S:g} s"
        count -= len(os.read(fd, count))
