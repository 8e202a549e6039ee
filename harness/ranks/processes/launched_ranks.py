"""``LaunchedRanks``: the server's record of one launch: its ranks' pids and pidfds, signals, reaping."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from dataclasses import dataclass, field

from harness.protocol import Exited, Launched, Refused, Signal, Swept, encode
from harness.system.reaper import reap
from harness.wire import FrameReader, send_frame


@dataclass(slots=True, eq=False)
class LaunchedRanks:
    """Owns the socket on which the server reports to the parent, and the pidfds of the live ranks."""

    events: socket.socket
    pids: dict[int, int] = field(default_factory=dict)  # rank -> pid
    pidfds: dict[int, int] = field(default_factory=dict)  # pidfd -> rank
    reader: FrameReader = field(default_factory=FrameReader)
    abandoned: bool = False  # True once the parent has closed its end

    def add(self, rank: int, pid: int) -> None:
        """Adds a rank that was just started; OSError where no descriptor is available to watch it."""
        self.pids[rank] = pid
        self.pidfds[os.pidfd_open(pid)] = rank

    def fds(self) -> list[int]:
        """The descriptors that no rank may inherit."""
        return [self.events.fileno(), *self.pidfds]

    def signal(self, message: Signal) -> None:
        """Sends a signal to a rank; does nothing where the rank has ended."""
        pid = self.pids.get(message.rank)
        if pid is not None:
            _signal(pid, message.signum, group=message.group)

    def kill(self) -> None:
        """Kills the ranks and their process groups."""
        for pid in self.pids.values():
            _signal(pid, signal.SIGKILL, group=True)

    def reap(self, pidfd: int) -> Exited:
        """Reaps the rank whose pidfd is ready and returns how it ended."""
        rank = self.pidfds.pop(pidfd)
        os.close(pidfd)
        return Exited(rank, *reap(self.pids.pop(rank)))

    def kill_and_reap(self) -> None:
        """Kills all ranks and waits for their ends."""
        self.kill()
        for pid in self.pids.values():
            reap(pid)
        self.pids.clear()
        while self.pidfds:
            os.close(self.pidfds.popitem()[0])

    def send(self, message: Launched | Refused | Exited | Swept) -> None:
        """Sends a message to the parent, unless the parent has closed its end."""
        if self.abandoned:
            return
        self.events.setblocking(True)
        with contextlib.suppress(OSError):  # the parent ended or closed its end: the selector reports that
            send_frame(self.events, encode(message))
        self.events.setblocking(False)


def _signal(pid: int, signum: int, *, group: bool) -> None:
    """Signals a rank, and with ``group`` all of its group: the rank is in it, unless a test has moved it."""
    if group:
        with contextlib.suppress(ProcessLookupError):  # not yet its own group leader
            os.killpg(pid, signum)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)
