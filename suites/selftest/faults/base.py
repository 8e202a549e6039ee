"""The base of the faulty cases: two ranks that can wait for each other without sleeping.

Imports no torch, so that a rank of the spawn launcher starts in a tenth of a second.
"""

from __future__ import annotations

import contextlib
import glob
import os
import select
import time
from collections.abc import Callable

from harness import MultiProcessTestCase

__unittest = True  # as the harness's own cases have it: a verdict shows no frame of these

# Seconds for ranks to come to the point that a row is about. Far above what a loaded machine needs; it ends
# a broken self-test, no healthy one waits for it.
ARRIVAL_S = 60.0
# Names the FIFO on which ranks announce process ids to a self-test that runs them in another process.
ANNOUNCE = "HARNESS_FAULTS_FIFO"


class FaultyCase(MultiProcessTestCase):
    """Two ranks. ``arrivals`` is how many of them call ``arrive`` before the test's deadline starts to run.

    A row about a hang needs a short deadline, and must not count against it how long ranks take to start.
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
            # the deadline as the mode of fresh ranks keeps it
            self._running._started = time.monotonic()  # type: ignore[union-attr]
        super()._join_processes(fn)

    def arrive(self) -> None:
        """In a rank: tells the parent that it may start the deadline."""
        _tell(self._fifo("arrivals"), b"!")

    def tell(self, point: str, word: str = "") -> None:
        """In a rank: returns when another rank hears this point."""
        _tell(self._fifo(point), word.encode())

    def hear(self, point: str) -> str:
        """In a rank: returns the word when another rank tells this point."""
        with open(self._fifo(point), "rb") as fifo:
            return fifo.read().decode()

    def _fifo(self, name: str) -> str:
        path = f"{self.file_name}.{name}"
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path)
        return path


def announce(*pids: int) -> None:
    """In a rank: tells the self-test that runs the whole test in another process about processes."""
    _tell(os.environ[ANNOUNCE], (" ".join(map(str, pids)) + "\n").encode())


def _remove_all(pattern: str) -> None:
    for path in glob.glob(pattern):
        os.remove(path)


def _tell(path: str, data: bytes) -> None:
    fifo = os.open(path, os.O_WRONLY)  # waits until somebody listens
    os.write(fifo, data)
    os.close(fifo)


def _read_bytes(fd: int, count: int) -> None:
    deadline = time.monotonic() + ARRIVAL_S
    while count > 0:
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"{count} ranks did not arrive within {ARRIVAL_S:g} s"
        count -= len(os.read(fd, count))
