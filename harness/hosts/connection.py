"""``Connection``: messages over one TCP connection to another host, read and written without waiting.

Also how hosts listen and dial. The kernel's own probes notice a host that has vanished while nobody sends.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time

from harness.errors import HarnessError
from harness.hosts.handshake import Handshake, HandshakeError, Purpose
from harness.hosts.messages import Message, decode, encode
from harness.wire import FrameReader, framed

# Seconds for a peer to pass the handshake: some round trips, on a host that may be busy with imports.
HANDSHAKE_S = 30.0
# Seconds of silence after which the kernel asks the peer, seconds between two questions, and how many.
_IDLE_S, _EVERY_S, _PROBES = 5, 2, 5
# Seconds for which data that is under way may stay unconfirmed, until the connection is lost.
_UNCONFIRMED_S = 20.0
_CHUNK_BYTES = 256 * 1024


class HostGone(HarnessError):
    """The connection to another host has ended; the text says how."""


class Connection:
    """Owns a connected socket. ``heard_s`` is when the peer last said something, on the monotonic clock."""

    def __init__(self, sock: socket.socket, first: bytes = b"") -> None:
        """``first`` are bytes that were read behind the handshake."""
        self._sock = sock
        sock.setblocking(False)
        self._reader = FrameReader()
        self._out = bytearray()
        self._first = first
        self.heard_s = time.monotonic()

    def fileno(self) -> int:
        """The socket's descriptor, for a selector."""
        return self._sock.fileno()

    def silent_s(self) -> float:
        """Seconds since the peer last said something; 0.0 where that waits to be received.

        This process may have been busy, or stopped, for longer than the peer was silent.
        """
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return 0.0 if poll.poll(0) else time.monotonic() - self.heard_s

    @property
    def own_address(self) -> str:
        """The address by which this host is reached on this connection."""
        return str(self._sock.getsockname()[0])

    @property
    def waiting(self) -> int:
        """How many bytes wait until the peer takes them."""
        return len(self._out)

    def send(self, message: Message) -> None:
        """Sends a message as far as that is possible at once; the rest waits for ``flush``.

        HostGone where the connection has ended.
        """
        self._out += framed(encode(message))
        self.flush()

    def flush(self) -> None:
        """Sends what waits, as far as that is possible at once; HostGone where the connection has ended."""
        while self._out:
            try:
                sent = self._sock.send(memoryview(self._out)[:_CHUNK_BYTES])
            except BlockingIOError:
                return
            except OSError as error:
                raise HostGone(_why(error)) from None
            del self._out[:sent]

    def flush_below(self, most: int) -> None:
        """Waits until at most ``most`` bytes wait; HostGone where the connection ends."""
        poll = select.poll()
        poll.register(self._sock, select.POLLOUT)
        while len(self._out) > most:
            poll.poll()
            self.flush()

    def receive(self) -> list[Message]:
        """The messages that have come; HostGone at the end, ProtocolError where they are none."""
        data, self._first = self._first, b""
        try:
            more = self._sock.recv(_CHUNK_BYTES)
        except BlockingIOError:
            more = b""
        except OSError as error:
            raise HostGone(_why(error)) from None
        else:
            if not more and not data:
                raise HostGone("it has closed the connection")
        self.heard_s = time.monotonic()
        return [decode(frame) for frame in self._reader.feed(data + more)]

    def receive_one(self, seconds: float) -> Message:
        """Waits for one message, where the peer sends one only; HostGone where none comes in ``seconds``."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        until = time.monotonic() + seconds
        while not (came := self.receive() if self._first or poll.poll(_ms_until(until)) else []):
            if time.monotonic() >= until:
                raise HostGone(f"it did not answer within {seconds:g} s")
        return came[0]

    def close(self) -> None:
        """Closes the connection."""
        self._sock.close()


def _ms_until(until: float) -> float:
    return 1000 * max(0.0, until - time.monotonic())


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer any more"
    return (error.strerror or str(error)).lower()


def listen(address: str, port: int = 0) -> socket.socket:
    """A socket that listens on one address, and on no other; OSError where that is impossible."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=128)


def dial(address: str, port: int, key: bytes, purpose: Purpose, seconds: float = HANDSHAKE_S) -> Connection:
    """A connection to a listener that has proven the key; HostGone or HandshakeError where there is none."""
    try:
        sock = socket.create_connection((address, port), timeout=seconds)
    except OSError as error:
        raise HostGone(f"{address}:{port} cannot be reached: {_why(error)}") from None
    with contextlib.ExitStack() as undo:
        undo.callback(sock.close)
        rest = _prove(sock, key, purpose)
        watch(sock)
        undo.pop_all()
    return Connection(sock, rest)


def _prove(sock: socket.socket, key: bytes, purpose: Purpose) -> bytes:
    handshake = Handshake(key, purpose, listens=False)
    try:
        sock.sendall(handshake.begin())
        while not handshake.passed:
            data = sock.recv(4096)
            if not data:
                raise HandshakeError("it has closed the connection: it has another key, or no room")
            sock.sendall(handshake.feed(data))
    except OSError as error:
        raise HostGone(_why(error)) from None
    return handshake.rest


def watch(sock: socket.socket) -> None:
    """Has the kernel notice that the peer's host has vanished, and send small messages at once."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _EVERY_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * _UNCONFIRMED_S))
