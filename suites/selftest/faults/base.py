"""``FaultyCase``, the base class of the faulty cases: its ranks wait for each other without sleeping.

It imports no torch, so that a rank of the spawn launcher starts in a tenth of a second.
"""

from __future__ import annotations

import contextlib
import glob
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import NoReturn

from harness import MultiProcessTestCase, environment
from harness.ranks.deadlines import start_wait_of
from harness.ranks.processes.mode import FreshRanks

__unittest = True  # as in the harness, so that a traceback in a verdict shows no frame of this file

# Seconds for ranks to reach the point that a test is about. Far above what a loaded machine needs: only a
# broken self-test waits this long.
ARRIVAL_S = 300.0
# What a rank writes that arrives or that follows; one that leaves writes its number.
ARRIVED, FOLLOWS = 255, 254
# Names the FIFO on which ranks announce process ids to the self-test that runs them in another process.
ANNOUNCE = "SELFTEST_FAULTS_FIFO"


class FaultyCase(MultiProcessTestCase):
    """A case of two ranks that synchronise through FIFOs.

    ``arrivals`` is the number of ranks that call ``arrive``, ``leave`` or ``follow`` before the deadline of
    the test starts to run. With ``left_s`` so many seconds of it are left then, however long it is: a test
    about a hang need not wait for it, and nothing that a busy machine makes slow counts against it.
    """

    world_size = 2
    arrivals = 0
    left_s: float | None = None

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(_remove_all, f"{self.file_name}.*")

    def _join_processes(self, fn: Callable[..., object]) -> None:
        if self.arrivals:
            fifo = self._fifo("arrivals")
            reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
            try:
                self._spawn_processes()
                came = _read_bytes(reader, self.arrivals)
            finally:
                os.close(reader)
            self._start_deadline(came)
        super()._join_processes(fn)

    def _start_deadline(self, came: bytes) -> None:
        """Starts the deadline anew, once the ranks whose numbers are in ``came`` have reported."""
        running = self._running
        assert isinstance(running, FreshRanks), running
        for rank in set(came) - {ARRIVED, FOLLOWS}:
            _wait_readable(running.ranks.links[rank].channel)
        if FOLLOWS in came:
            self.tell("follow")
        running.started = time.monotonic()
        if self.left_s is not None:
            settings = environment.settings()
            running.started -= start_wait_of(settings) + self._timeout_s(settings) - self.left_s

    def arrive(self) -> None:
        """Called in a rank: tells the parent that this rank has arrived, so that the deadline may start."""
        _tell(self._fifo("arrivals"), bytes([ARRIVED]))

    def leave(self) -> None:
        """Called in a rank that is done: the deadline may start once this rank has reported."""
        _tell(self._fifo("arrivals"), bytes([self.rank]))

    def follow(self) -> None:
        """Called in one rank of a test: arrives, and returns once all ranks that left have reported."""
        _tell(self._fifo("arrivals"), bytes([FOLLOWS]))
        self.hear("follow")

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


def _read_bytes(fd: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        _wait_readable(fd)
        data += os.read(fd, count - len(data))
    return data


def _wait_readable(what: int | socket.socket) -> None:
    ready, _, _ = select.select([what], [], [], ARRIVAL_S)
    assert ready, f"not every rank came to where the test begins within {ARRIVAL_S:g} s"
