"""``LaunchedRanks``: the ranks of one launch as the server that is their parent knows them."""

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
    """Owns the socket on which the parent hears of the launch's ranks, and the pidfds of those that live."""

    events: socket.socket
    pids: dict[int, int] = field(default_factory=dict)  # rank -> pid
    pidfds: dict[int, int] = field(default_factory=dict)  # pidfd -> rank
    reader: FrameReader = field(default_factory=FrameReader)
    abandoned: bool = False  # the parent has closed its end

    def add(self, rank: int, pid: int) -> None:
        """Takes in a rank that was just started; OSError where there is no descriptor to watch it with."""
        self.pids[rank] = pid
        self.pidfds[os.pidfd_open(pid)] = rank

    def fds(self) -> list[int]:
        """The descriptors that no rank may inherit."""
        return [self.events.fileno(), *self.pidfds]

    def signal(self, message: Signal) -> None:
        """Signals a rank; nothing happens to one that has ended."""
        pid = self.pids.get(message.rank)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if message.group else os.kill)(pid, message.signum)

    def kill(self) -> None:
        """Kills the ranks and their process groups."""
        for pid in self.pids.values():
            with contextlib.suppress(ProcessLookupError):  # not yet its own group leader
                os.killpg(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def reap(self, pidfd: int) -> Exited:
        """Reaps the rank of a pidfd that is ready, and says how it ended."""
        rank = self.pidfds.pop(pidfd)
        os.close(pidfd)
        return Exited(rank, *reap(self.pids.pop(rank)))

    def kill_and_reap(self) -> None:
        """Ends all ranks and waits for them."""
        self.kill()
        for pid in self.pids.values():
            reap(pid)
        self.pids.clear()
        while self.pidfds:
            os.close(self.pidfds.popitem()[0])

    def send(self, message: Launched | Refused | Exited | Swept) -> None:
        """Sends a message to the parent, if it still listens."""
        if self.abandoned:
            return
        self.events.setblocking(True)
        with contextlib.suppress(OSError):  # the parent died or lost interest: the selector tells
            send_frame(self.events, encode(message))
        self.events.setblocking(False)
