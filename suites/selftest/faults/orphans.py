"""Ranks that would outlive the process or the server that started them if the harness did not end them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable

from suites.selftest.faults.base import FaultyCase, announce
from suites.selftest.faults.leftovers import SLEEPER

# Process ids that the first test announces: for each of two ranks its own, its server's, a child's, and that
# of a child in another session.
ANNOUNCED = 8


class Orphans(FaultyCase):
    """Ranks that announce their process ids and wait for ever, in a process that a self-test kills."""

    def test_wait(self) -> None:
        """Each rank waits for ever and has two children that would not end by themselves."""
        child = subprocess.Popen(SLEEPER)
        stranger = subprocess.Popen(SLEEPER, start_new_session=True)
        announce(os.getpid(), os.getppid(), child.pid, stranger.pid)
        time.sleep(3600)

    def test_afterwards(self) -> None:
        """Passes; it is the test that follows in a run that goes on."""


class KillsServer(FaultyCase):
    """Rank 1 kills the server that is its parent."""

    def test_kill(self) -> None:
        """Rank 1 sends SIGKILL, so that the server can neither report nor sweep any more."""
        announce(os.getpid())
        if self.rank == 1:
            self.hear("announced")
            os.kill(os.getppid(), signal.SIGKILL)
        else:
            self.tell("announced")
        time.sleep(3600)


class StopsServer(FaultyCase):
    """Rank 1 stops the server that is its parent, and the test's deadline starts to run."""

    arrivals = 2

    def _spawn_processes(self) -> None:
        super()._spawn_processes()
        self.tell("launched")  # the server has said so, and may be stopped

    def stop(self) -> None:
        """Called in each rank: rank 1 stops the server."""
        announce(os.getpid())
        if self.rank == 1:
            self.hear("launched")
            os.kill(os.getppid(), signal.SIGSTOP)
        self.arrive()

    def test_wait(self) -> None:
        """Each rank waits for ever, and no signal of the supervisor reaches it any more."""
        self.stop()
        time.sleep(3600)

    def test_pass(self) -> None:
        """Each rank passes and exits, and nobody tells of its exit."""
        self.stop()


class LosesServer(FaultyCase):
    """The parent's server is killed in the middle of a test."""

    signum = signal.SIGKILL

    def _join_processes(self, fn: Callable[..., object]) -> None:
        self._spawn_processes()
        reader = os.open(self._fifo("server"), os.O_RDONLY)
        with open(reader) as fifo:
            os.kill(int(fifo.read()), self.signum)
        super()._join_processes(fn)

    def test_wait(self) -> None:
        """Each rank waits for ever, after rank 1 has told the parent the server's pid."""
        announce(os.getpid())
        if self.rank == 0:
            self.tell("announced")
        else:
            self.hear("announced")
            self.tell("server", str(os.getppid()))
        time.sleep(3600)


class LosesServerPolitely(LosesServer):
    """The parent's server gets SIGTERM, as a machine that shuts down sends it."""

    signum = signal.SIGTERM
