"""Ranks that outlive whoever started them, unless the harness sees to it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable

from suites.selftest.faults.base import FaultyCase, announce
from suites.selftest.faults.leftovers import SLEEPER

# What the first test announces: two ranks, each with its server, a child, and a child in another session.
ANNOUNCED = 8


class Orphans(FaultyCase):
    """Ranks tell who they are and wait for ever; run in a process of its own that is killed."""

    def test_wait(self) -> None:
        """With children that would not go by themselves."""
        child = subprocess.Popen(SLEEPER)
        stranger = subprocess.Popen(SLEEPER, start_new_session=True)
        announce(os.getpid(), os.getppid(), child.pid, stranger.pid)
        time.sleep(3600)

    def test_afterwards(self) -> None:
        """For the run that goes on."""


class KillsServer(FaultyCase):
    """Rank 1 kills the server that is its parent."""

    def test_kill(self) -> None:
        """By SIGKILL: nothing can be said or swept any more."""
        announce(os.getpid())
        if self.rank == 1:
            self.hear("announced")
            os.kill(os.getppid(), signal.SIGKILL)
        else:
            self.tell("announced")
        time.sleep(3600)


class LosesServer(FaultyCase):
    """The parent sees its server killed in the middle of a test."""

    signum = signal.SIGKILL

    def _join_processes(self, fn: Callable[..., object]) -> None:
        self._spawn_processes()
        reader = os.open(self._fifo("server"), os.O_RDONLY)
        with open(reader) as fifo:
            os.kill(int(fifo.read()), self.signum)
        super()._join_processes(fn)

    def test_wait(self) -> None:
        """Until somebody kills the server."""
        announce(os.getpid())
        if self.rank == 0:
            self.tell("announced")
        else:
            self.hear("announced")
            self.tell("server", str(os.getppid()))
        time.sleep(3600)


class LosesServerPolitely(LosesServer):
    """Likewise, by SIGTERM, as a machine that shuts down sends it."""

    signum = signal.SIGTERM
