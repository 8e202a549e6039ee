"""``HostedLaunch``: the ranks of one launch on this host, whose bytes go to the parent on another host."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from harness.communication.analysis.wait_graph import SERVING
from harness.communication.call_log import Observation
from harness.communication.log_copy import LogSource
from harness.hosts.loop import BufferedWriter, Loop
from harness.hosts.messages import Data, HostSwept, Message, RankEnded, Stream
from harness.protocol import Exited, Swept, decode
from harness.ranks.processes.rank_set import RankLink, RankSet
from harness.system import posix
from harness.wire import FrameReader, read_available

# Reads that empty even a pipe of the kernel's largest size, 1 MiB, when its rank has ended.
_DRAIN_READS = 16

Send = Callable[[Message], None]


class HostedLaunch:
    """Owns the rank set. ``send`` takes messages for the parent; ``shift_s`` is added to its clock."""

    def __init__(
        self, number: int, ranks: RankSet, here: Sequence[int], loop: Loop, send: Send, shift_s: float
    ) -> None:
        self.number = number
        self._ranks = ranks
        self._loop = loop
        self._send = send
        self._shift_s = shift_s
        self._links = {link.rank: link for link in ranks.links}
        self._pids = dict(zip(here, ranks.pids, strict=True))
        self._logs = {rank: LogSource(link.log) for rank, link in self._links.items()}
        self._channels: dict[int, BufferedWriter] = {}
        self._events = FrameReader()
        self._open: dict[int, set[Stream]] = {}
        self.done = False
        ranks.events.setblocking(False)
        loop.on_read(ranks.events.fileno(), self._hear)
        for link in ranks.links:
            self._listen(link)

    def _listen(self, link: RankLink) -> None:
        self._open[link.rank] = {Stream.CHANNEL, Stream.OUTPUT, Stream.STACK}
        self._channels[link.rank] = BufferedWriter(self._loop, link.channel.fileno(), lambda: None)
        for stream in self._open[link.rank]:
            self._loop.on_read(_fd(link, stream), lambda stream=stream: self._read(link.rank, stream))  # type: ignore[misc]  # the lambda's default

    # -- to the parent

    def _read(self, rank: int, stream: Stream) -> bool:
        """Sends what a stream holds now; whether it may hold more."""
        if self.done or stream not in self._open[rank]:
            return False
        fd = _fd(self._links[rank], stream)
        data = read_available(fd)
        if data is None:
            self._open[rank].discard(stream)
            self._loop.no_read(fd)
        elif not data:
            return False
        if stream is Stream.CHANNEL:  # who hears a report reads the log
            self._send_log(rank)
        self._send(Data(self.number, rank, stream, data or b""))
        return data is not None

    def send_logs(self) -> None:
        """Sends what has changed in the logs of all live ranks, and what their processes do now.

        Behind ``HostSwept`` nothing comes of a launch: its parent has closed what it would be written to.
        """
        for rank in self._pids if not self.done else ():
            self._send_log(rank)

    def _send_log(self, rank: int) -> None:
        pid = self._pids.get(rank)
        if pid is None:
            seen = Observation(time.monotonic() + self._shift_s, can_move=False, helped=False, stopped=False)
        else:
            moves = posix.could_run(pid, serving=SERVING)
            seen = Observation(
                time.monotonic() + self._shift_s, moves, posix.has_children(pid), posix.is_stopped(pid)
            )
        for offset, piece in self._logs[rank].changes(self._shift_s, seen):
            self._send(Data(self.number, rank, Stream.LOG, piece, offset))

    def _hear(self) -> None:
        data = read_available(self._ranks.events.fileno())
        if data is None:
            self._server_gone()
            return
        for frame in self._events.feed(data):
            message = decode(frame)
            if isinstance(message, Exited):
                self._rank_ended(message)
            else:
                assert isinstance(message, Swept), message
                self._ranks.swept = message.leaked
                self._finish(message.leaked)

    def _rank_ended(self, message: Exited) -> None:
        self._drain(message.rank)
        del self._pids[message.rank]
        self._send_log(message.rank)
        self._send(RankEnded(self.number, message.rank, message.code, message.peak_memory))

    def _drain(self, rank: int) -> None:
        for stream in (Stream.CHANNEL, Stream.OUTPUT, Stream.STACK):
            for _ in range(_DRAIN_READS):
                if not self._read(rank, stream):
                    break

    def _server_gone(self) -> None:
        """The server that forked the ranks has died, and the kernel has killed them."""
        if self.done:
            return
        for rank in list(self._pids):
            self._rank_ended(Exited(rank, -9, 0))
        self._finish(["the server that starts ranks was lost, and what they left behind is not known"])

    def _finish(self, leaked: Sequence[str]) -> None:
        self.done = True
        self._send(HostSwept(self.number, list(leaked)))

    # -- from the parent

    def give(self, rank: int, data: bytes) -> None:
        """Writes to a rank's channel."""
        self._channels[rank].write(data)

    def signal(self, rank: int, signum: int, *, group: bool) -> None:
        """Signals a rank, or its process group; the parent hears first what the rank did until then."""
        if not self.done:
            self._send_log(rank)
        self._ranks.signal(rank, signum, group=group)

    def end(self) -> None:
        """Kills what still runs of the launch, and waits until it is gone."""
        if self.done:
            return
        self._silence()
        self._ranks.close()
        self._finish(self._ranks.swept or [])

    def _silence(self) -> None:
        if self._ranks.closed:
            return
        self._loop.forget(self._ranks.events.fileno())
        for link in self._links.values():
            for stream in (Stream.CHANNEL, Stream.OUTPUT, Stream.STACK):
                self._loop.forget(_fd(link, stream))

    def close(self) -> None:
        """Closes everything; ranks that still run are killed."""
        self._silence()
        self._ranks.close()


def _fd(link: RankLink, stream: Stream) -> int:
    return {Stream.CHANNEL: link.channel.fileno(), Stream.OUTPUT: link.output, Stream.STACK: link.stack}[
        stream
    ]
