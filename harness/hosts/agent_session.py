"""``Link``: a session with another host's agent, as a relay of this process keeps it in its loop.

A relay stands in for a server: that of a process of tests which forks ranks (``ranks.hosts.relay``), or that
of a run which forks workers (``runner.workers.zygote_relay``).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.errors import ProtocolError
from harness.hosts.connection import HANDSHAKE_S, Connection, HostGone, dial
from harness.hosts.handshake import Purpose
from harness.hosts.hosts import Host
from harness.hosts.loop import Loop
from harness.hosts.messages import Message, Ping, Pong, Settled

# Seconds between two pings.
PING_EVERY_S = 1.0
# How often the clocks are compared when a session begins; the quickest answer counts.
_CLOCK_LOOKS = 5
# Bytes of a host that wait for their reader here, above which no more are read from that host.
_MOST_WAITING = 16 * 1024 * 1024


class Link:
    """Owns the connection. ``shift_s`` is what to add to the host's clock for ours."""

    def __init__(self, host: Host, connection: Connection, shift_s: float) -> None:
        self.host = host
        self.shift_s = shift_s
        self.paused = False
        self.stalled = False  # it was lost because it said nothing any more
        self._connection = connection
        self._loop: Loop | None = None

    def attach(
        self,
        loop: Loop,
        take: Callable[[Message], object],
        lost: Callable[[str], object],
        taken: Callable[[], object] = lambda: None,
    ) -> None:
        """Reads the host's messages in a loop, and gives each to ``take``; ``taken`` follows the last.

        ``lost`` is called once, with the reason, when the connection ends or the host says what it must not.
        """
        self._loop, self._take, self._lost, self._taken = loop, take, lost, taken
        loop.on_read(self._connection.fileno(), self._hear)

    @property
    def open(self) -> bool:
        """Whether the connection has not ended."""
        return self._connection.fileno() >= 0

    def _hear(self) -> None:
        try:
            for message in self._connection.receive():
                if not isinstance(message, Pong):
                    self._take(message)
        except HostGone as error:
            self.lose(str(error))
        except (ProtocolError, ValueError, IndexError) as error:
            self.lose(f"it sent what is no message: {error}"[:300])
        self._taken()

    def send(self, message: Message) -> None:
        """Sends a message; the rest of what cannot be sent at once follows in the loop."""
        if not self.open:
            return
        try:
            self._connection.send(message)
        except HostGone as error:
            self.lose(str(error))
            return
        if self._connection.waiting:
            assert self._loop is not None
            self._loop.on_write(self._connection.fileno(), self._flush)

    def _flush(self) -> None:
        try:
            self._connection.flush()
        except HostGone as error:
            self.lose(str(error))
            return
        if not self._connection.waiting:
            assert self._loop is not None
            self._loop.no_write(self._connection.fileno())

    def lose(self, why: str) -> None:
        """Ends the link because of what its host did, or did not do; nothing where it has ended."""
        if self.open:
            self.close()
            self._lost(why)

    def pause_above(self, waiting: int) -> None:
        """Reads no more of the host while more than so many bytes of it ``waiting`` have not been taken."""
        if not self.open or self._loop is None:
            return
        if waiting > _MOST_WAITING and not self.paused:
            self.paused = True
            self._loop.no_read(self._connection.fileno())
        elif waiting < _MOST_WAITING // 2 and self.paused:
            self.paused = False
            self._connection.heard_s = time.monotonic()
            self._loop.on_read(self._connection.fileno(), self._hear)

    def ping(self, lost_after_s: float, *, busy: bool = False) -> None:
        """Asks whether the host is there, and loses one that was silent too long and is not ``busy``."""
        silent_s = self._connection.silent_s() if self.open else 0.0
        if silent_s > lost_after_s and not busy and not self.paused:
            self.stalled = True
            self.lose(f"it has said nothing for {silent_s:.0f} s")
        else:
            self.send(Ping(time.monotonic()))

    def close(self) -> None:
        """Closes the connection, which ends the session."""
        if self.open and self._loop is not None:
            self._loop.forget(self._connection.fileno())
        self._connection.close()


def connect(host: Host, secret: bytes, lost_after_s: float) -> Link:
    """Begins a session with a host's agent; HostGone or HandshakeError where that is impossible."""
    connection = dial(host.address, host.port, secret, Purpose.SESSION, min(HANDSHAKE_S, lost_after_s))
    try:
        shifts = []
        for _ in range(_CLOCK_LOOKS):
            connection.send(Ping(time.monotonic()))
            answer = connection.receive_one(lost_after_s)
            back_s = time.monotonic()
            if not isinstance(answer, Pong):
                raise HostGone(f"it sent {answer!r} as the first message")
            shifts.append((back_s - answer.sent_s, (back_s + answer.sent_s) / 2 - answer.own_s))
        shift_s = min(shifts)[1]
        connection.send(Settled(shift_s, lost_after_s))
    except BaseException:
        connection.close()
        raise
    return Link(host, connection, shift_s)
