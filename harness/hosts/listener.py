"""``Listener``: a listening socket through which only peers with the run's key come.

Until a peer has passed the handshake nothing that it sends is read as a message, it has only seconds, and
there is room for a few such peers only: a flood fills that room, and no more.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

from harness.hosts.connection import HANDSHAKE_S, Connection, watch
from harness.hosts.handshake import Handshake, HandshakeError, Purpose

# Peers that may be in a handshake at a time. One that comes when there are more takes the place of the
# oldest, so that a flood of silent peers keeps nobody out for long.
MOST_WAITING = 64
# Bytes that are read of a peer at a time, of which a handshake takes fewer than 100.
_CHUNK_BYTES = 4096


@dataclass(slots=True)
class _Pending:
    """A peer that has not yet proven the key."""

    sock: socket.socket
    address: str
    handshake: Handshake
    until_s: float


class Listener:
    """Owns the listening socket and the peers in a handshake.

    ``refused`` has a line for each peer that was turned away since it was last emptied.
    """

    def __init__(self, listener: socket.socket, key: bytes, purpose: Purpose) -> None:
        self._socket = listener
        self._key = key
        self._purpose = purpose
        self._pending: dict[int, _Pending] = {}
        listener.setblocking(False)
        self.refused: list[str] = []

    def descriptors(self) -> list[int]:
        """The descriptors to wait on: when one can be read, ``enter`` has something to do."""
        return [self._socket.fileno(), *self._pending]

    def wait_s(self) -> float | None:
        """Seconds until a peer has taken too long; None where there is none."""
        if not self._pending:
            return None
        return max(0.0, min(pending.until_s for pending in self._pending.values()) - time.monotonic())

    def enter(self) -> Iterator[tuple[Connection, str]]:
        """Takes in whoever is there, without waiting; yields those that have passed, with their addresses."""
        self._accept()
        for pending in list(self._pending.values()):
            try:
                passed = self._hear(pending)
                if not passed and time.monotonic() > pending.until_s:
                    raise HandshakeError(f"it did not prove its key within {HANDSHAKE_S:g} s")
            except (OSError, HandshakeError) as error:
                self._turn_away(pending, str(error))
                continue
            if passed:
                del self._pending[pending.sock.fileno()]
                with contextlib.suppress(OSError):
                    watch(pending.sock)
                yield Connection(pending.sock, pending.handshake.rest), pending.address

    def _accept(self) -> None:
        for _ in range(MOST_WAITING):
            try:
                sock, address = self._socket.accept()
            except OSError:  # nobody is there any more, or there are no descriptors for more
                return
            sock.setblocking(False)
            if len(self._pending) >= MOST_WAITING:
                self._turn_away(next(iter(self._pending.values())), "there are too many")
            handshake = Handshake(self._key, self._purpose, listens=True)
            until_s = time.monotonic() + HANDSHAKE_S
            self._pending[sock.fileno()] = _Pending(sock, str(address[0]), handshake, until_s)

    def _hear(self, pending: _Pending) -> bool:
        try:
            data = pending.sock.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not data:
            why = ", as from one with another key" if pending.handshake.heard else ""
            raise HandshakeError(f"it has closed the connection{why}")
        pending.sock.send(pending.handshake.feed(data))  # fewer bytes than any socket's buffer
        return pending.handshake.passed

    def _turn_away(self, pending: _Pending, why: str) -> None:
        self.refused.append(f"a connection from {pending.address} was refused: {why}")
        del self._pending[pending.sock.fileno()]
        pending.sock.close()

    def close(self) -> None:
        """Closes the listening socket, and the connections of those that have not passed."""
        self._socket.close()
        while self._pending:
            self._pending.popitem()[1].sock.close()
