"""``RelayedLaunch``: one test's ranks on several hosts, as the parent's relay holds them.

It owns the far ends of the descriptors that the parent has made for the launch. Of what a host sends it
writes each rank's bytes there, so that the parent reads them as if the rank were a child of its own server.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.communication import log_copy
from harness.hosts.loop import BufferedWriter, Loop
from harness.hosts.messages import Data, Stream
from harness.protocol import Exited, HostLost, Launch, Launched, Refused, Signal, Swept, decode, encode
from harness.wire import FrameReader, read_available, send_frame, socket_from

# What the parent says of a launch: (rank, bytes for its channel), (rank, a signal), or None for its end.
Said = Callable[["RelayedLaunch", "int | None", "bytes | Signal | None"], None]


@dataclass(slots=True)
class _Ends:
    """The far ends of one rank's descriptors."""

    host: str
    channel: socket.socket
    writers: dict[Stream, BufferedWriter]
    log: int
    exit: Exited | None = None
    gone: bool = False  # its exit has been told

    @property
    def waiting(self) -> int:
        """How many bytes the parent has not yet taken."""
        return sum(writer.waiting for writer in self.writers.values())


class RelayedLaunch:
    """The launch of number ``number``. ``hosts`` is the name of each rank's host, by rank."""

    def __init__(
        self, number: int, request: Launch, fds: Sequence[int], per_rank: Sequence[Sequence[int]], loop: Loop
    ) -> None:
        """Takes the descriptors over, in the order of ``rank_set.split_fds``, and closes them in the end."""
        self.number = number
        self.request = request
        self.hosts: list[str] = []
        self._loop = loop
        self._events = socket_from(fds[0])
        self._reader = FrameReader()
        self._channels = [socket_from(channel) for channel, _, _, _ in per_rank]
        self._rest = [rest for _, *rest in per_rank]
        self._ends: list[_Ends] = []
        self._pids: dict[str, list[int]] = {}  # by host, once its ranks exist
        self._swept: set[str] = set()
        self._leaked: list[str] = []
        self.abandoned = False  # the parent has let go of it, or was told that it was refused
        self.done = False

    def place(self, hosts: Sequence[str], said: Said) -> None:
        """Gives each rank its host, and begins to pass on what the parent says."""
        self.hosts = list(hosts)
        for rank, (channel, (output, stack, log)) in enumerate(zip(self._channels, self._rest, strict=True)):
            writers = {
                Stream.CHANNEL: BufferedWriter(self._loop, channel.fileno(), _shut(channel)),
                Stream.OUTPUT: BufferedWriter(self._loop, output, _close(output)),
                Stream.STACK: BufferedWriter(self._loop, stack, _close(stack)),
            }
            ends = _Ends(hosts[rank], channel, writers, log)
            self._ends.append(ends)
            for writer in writers.values():
                writer.on_flush = self._go_on
            self._loop.on_read(channel.fileno(), lambda rank=rank: self._hear_channel(rank, said))  # type: ignore[misc]  # the lambda's default
        self._events.setblocking(False)
        self._loop.on_read(self._events.fileno(), lambda: self._hear(said))

    def ranks_on(self, host: str) -> list[int]:
        """The ranks on one host."""
        return [rank for rank, name in enumerate(self.hosts) if name == host]

    def waiting_from(self, host: str) -> int:
        """How many bytes of a host's ranks the parent has not yet taken."""
        return sum(ends.waiting for ends in self._ends if ends.host == host)

    @property
    def starting(self) -> frozenset[str]:
        """The hosts that have not yet said whether the ranks exist."""
        return frozenset(self.hosts) - self._pids.keys() - self._swept

    # -- from the parent

    def _hear_channel(self, rank: int, said: Said) -> None:
        data = read_available(self._channels[rank].fileno())
        if data is None:
            self._loop.no_read(self._channels[rank].fileno())
        elif data:
            said(self, rank, data)

    def _hear(self, said: Said) -> None:
        data = read_available(self._events.fileno())
        if data is None:
            self._abandon()
            said(self, None, None)
            self._go_on()
            return
        for frame in self._reader.feed(data):
            message = decode(frame)
            assert isinstance(message, Signal), message
            said(self, message.rank, message)

    def _abandon(self) -> None:
        """Drops what the parent does not want any more."""
        self.abandoned = True
        self._loop.no_read(self._events.fileno())
        for ends in self._ends:
            self._loop.no_read(ends.channel.fileno())
            for writer in ends.writers.values():
                writer.drop()

    # -- from the hosts

    def began(self, host: str, pids: Sequence[int], shifts_s: dict[str, float]) -> None:
        """A host's ranks exist; once all do, the parent is told."""
        self._pids[host] = list(pids)
        if self.starting or self.abandoned:
            return
        by_rank = {
            rank: pid
            for name, pids in self._pids.items()
            for rank, pid in zip(self.ranks_on(name), pids, strict=True)
        }
        ordered = [by_rank[rank] for rank in range(len(self.hosts))]
        self._send(Launched(ordered, self.hosts, [shifts_s[name] for name in self.hosts]))
        self._go_on()  # a rank of a host that was quicker may have ended meanwhile

    def refuse(self, reason: str, host: str | None = None) -> None:
        """Tells the parent that the ranks cannot be started, on one ``host`` or at all."""
        if not self.abandoned:
            self._send(Refused(reason))
            self._abandon()
        self._swept |= {host} if host is not None else set(self.hosts)
        self._go_on()

    def take(self, data: Data) -> None:
        """Passes bytes of a rank on to the parent; an empty piece is the end of its stream."""
        ends = self._ends[data.rank]
        if self.abandoned or self.done:  # done: its descriptors are closed, and their numbers may be others'
            return
        if data.stream is Stream.LOG:
            log_copy.apply(ends.log, data.offset, data.payload)
        elif data.payload:
            ends.writers[data.stream].write(data.payload)
        else:
            ends.writers[data.stream].end()

    def rank_ended(self, exit_: Exited) -> None:
        """A rank has ended; the parent hears it once it has all that the rank sent."""
        self._ends[exit_.rank].exit = exit_
        self._go_on()

    def swept(self, host: str, leaked: Sequence[str]) -> None:
        """Nothing is left of the launch on a host."""
        self._swept.add(host)
        self._leaked += leaked
        self._go_on()

    def lose(self, host: str, why: str) -> None:
        """A host is gone, and with it its ranks."""
        if host not in self.hosts or host in self._swept:
            return
        if self.starting and not self.abandoned:
            self.refuse(f"{why}, while ranks were started there", host)
            return
        lost = [rank for rank in self.ranks_on(host) if self._ends[rank].exit is None]
        if lost and not self.abandoned:
            self._send(HostLost(lost, why))
        for rank in lost:
            self._ends[rank].gone = True
        self.swept(host, ())

    def _go_on(self) -> None:
        """Tells of exits whose ranks' bytes the parent has, and ends a launch of which nothing is left.

        The parent hears of no exit before it has heard that all ranks exist.
        """
        if self.starting and not self.abandoned:
            return
        for ends in self._ends:
            if ends.exit is not None and not ends.gone and not ends.waiting:
                ends.gone = True
                self._send(ends.exit)
        if self.done or not self._swept.issuperset(self.hosts):
            return
        if self.abandoned or all(ends.gone for ends in self._ends):
            self._send(Swept(self._leaked))
            self.close()

    def _send(self, message: Launched | Refused | Exited | HostLost | Swept) -> None:
        if self.abandoned:
            return
        self._events.setblocking(True)
        with contextlib.suppress(OSError):  # the parent ended or closed its end: the loop reports that
            send_frame(self._events, encode(message))
        self._events.setblocking(False)

    def close(self) -> None:
        """Closes everything; a second call does nothing."""
        if self.done:
            return
        self.done = True
        self._loop.forget(self._events.fileno())
        for ends in self._ends:
            for writer in ends.writers.values():
                writer.drop()
            self._loop.forget(ends.channel.fileno())
        for channel in self._channels:
            channel.close()
        for log in self._logs():
            os.close(log)
        self._events.close()

    def _logs(self) -> Iterator[int]:
        """The logs, and where no rank was placed the pipes too, which no writer has closed."""
        for output, stack, log in self._rest:
            yield log
            if not self._ends:
                yield from (output, stack)


def _shut(channel: socket.socket) -> Callable[[], None]:
    def shut() -> None:
        with contextlib.suppress(OSError):
            channel.shutdown(socket.SHUT_WR)

    return shut


def _close(fd: int) -> Callable[[], None]:
    return lambda: os.close(fd)
