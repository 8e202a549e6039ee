"""``Played``, a rank set without processes that a test plays to the supervisor."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable
from typing import Any

from harness.communication import call_log
from harness.outcomes import RankOutcome, Status, SubtestOutcome
from harness.protocol import Exited, Report, SubtestFailed, Swept, encode
from harness.ranks.processes.rank_set import RankLink, make_poller
from harness.wire import send_frame

Deed = Callable[[], None]


class Played:
    """Stands in for a ``RankSet``.

    ``on`` says what a rank does when it is told something: (rank, signal number or "release") -> action.
    """

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.turn = 0
        self.pids = [1000 + rank for rank in range(world_size)]
        self.hosts: list[str] = []
        self.events, self._server = socket.socketpair()
        self.swept: list[str] | None = None
        self.links: list[RankLink] = []
        self._channels: list[socket.socket] = []
        self._outputs: list[int] = []
        self._stacks: list[int] = []
        for rank in range(world_size):
            self._open(rank)
        self.on: dict[tuple[int, int | str], Deed] = {}
        self.told: list[tuple[int, int | str]] = []
        self._left = world_size
        self.killed = ""  # what is known of why ranks were killed

    def _open(self, rank: int) -> None:
        near, far = socket.socketpair()
        output, output_far = os.pipe()
        stack, stack_far = os.pipe()
        near.setblocking(False)
        os.set_blocking(output, False)
        os.set_blocking(stack, False)
        self.links.append(RankLink(rank, near, output, stack, call_log.memory_file()))
        self._channels.append(far)
        self._outputs.append(output_far)
        self._stacks.append(stack_far)

    def close(self) -> None:
        """Closes both ends of everything."""
        for link, channel, output, stack in zip(
            self.links, self._channels, self._outputs, self._stacks, strict=True
        ):
            link.close()
            channel.close()
            os.close(output)
            os.close(stack)
        self.events.close()
        self._server.close()

    # -- what the supervisor does to ranks

    def poller(self) -> select.poll:
        """Returns the poll object, as ``RankSet`` does."""
        return make_poller(self.events, self.links)

    def located(self, outcome: RankOutcome) -> RankOutcome:
        """Leaves an outcome as it is, as for ranks on this host."""
        return outcome

    def end_stopped_server(self) -> bool:
        """Says that the server is not stopped."""
        return False

    def why_killed(self, code: int) -> str:
        """Returns what is known of why a rank was killed."""
        return self.killed if code == -signal.SIGKILL else ""

    def signal(self, rank: int, signum: int, *, group: bool = False) -> None:
        """Notes a signal to a rank and runs the rank's action for it."""
        self._tell(rank, int(signum))

    def release(self, rank: int) -> None:
        """Notes the release of a rank and runs the rank's action for it."""
        self._tell(rank, "release")

    def _tell(self, rank: int, what: int | str) -> None:
        self.told.append((rank, what))
        self.on.get((rank, what), _nothing)()

    # -- what ranks do

    def says(self, rank: int, status: Status, **fields: Any) -> None:
        """Lets a rank report."""
        self.sends(rank, encode(Report(RankOutcome(rank, status, **fields))))

    def fails_subtest(self, rank: int, subtest: SubtestOutcome) -> None:
        """Lets a rank say that a sub-test failed."""
        self.sends(rank, encode(SubtestFailed(rank, subtest)))

    def says_as(self, rank: int, other: int, status: Status) -> None:
        """Lets a rank report in the name of another."""
        self.sends(rank, encode(Report(RankOutcome(other, status))))

    def writes(self, rank: int, data: bytes) -> None:
        """Lets a rank write bytes to its channel, whether they make a message or not."""
        self._channels[rank].sendall(data)

    def hangs_up(self, rank: int) -> None:
        """Closes a rank's end of its channel."""
        self._channels[rank].close()

    def sends(self, rank: int, frame: bytes) -> None:
        """Lets a rank write a frame to its channel."""
        send_frame(self._channels[rank], frame)

    def prints(self, rank: int, data: bytes) -> None:
        """Lets a rank write to its output."""
        os.write(self._outputs[rank], data)

    def dumps(self, rank: int, data: bytes) -> None:
        """Sends a rank's stack dump."""
        os.write(self._stacks[rank], data)

    def exits(self, rank: int, code: int, leaked: tuple[str, ...] = (), swept: bool = True) -> None:
        """Ends a rank's process; after the last one the server reports its sweep if ``swept``."""
        send_frame(self._server, encode(Exited(rank, code, 1 << 20)))
        self._left -= 1
        if self._left == 0 and swept:
            send_frame(self._server, encode(Swept(list(leaked))))

    def server_dies(self) -> None:
        """Closes the server's end of the launch."""
        self._server.close()


def _nothing() -> None:
    """The action of a rank that does not react."""
