"""``Handshake``: both ends of a connection prove that they have the run's key, before anything else is read.

    dialer                                     listener
      |  magic, nonce D  ----------------------->  |
      |  <----- magic, nonce L, HMAC(key, L says) -|
      |  HMAC(key, D says)  -------------------->  |  passed

What an end proves covers both nonces, its side and the purpose of the connection, so no proof can be used a
second time or sent back. The key itself never travels. Pure: bytes in, bytes out.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets

from harness.errors import HarnessError

# The last byte is the version of this protocol.
MAGIC = b"torch-harness \x01"
NONCE_BYTES = 32
_PROOF_BYTES = hashlib.sha256().digest_size


class Purpose(enum.Enum):
    """What a connection is for."""

    ARRIVAL = b"arrival"  # of an agent at the controller
    SESSION = b"session"  # of a process of tests at an agent


class HandshakeError(HarnessError):
    """The peer is no part of this run: it has another key, speaks another protocol, or sends garbage."""


class Handshake:
    """One end of a handshake. ``rest`` are the bytes that came behind it, once it has ``passed``."""

    def __init__(self, key: bytes, purpose: Purpose, *, listens: bool) -> None:
        self._key = key
        self._purpose = purpose
        self._listens = listens
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._theirs = b""
        self._data = b""
        self.passed = False
        self.rest = b""

    @property
    def heard(self) -> bool:
        """Whether the peer spoke this protocol, and this end proved its key where it listens."""
        return bool(self._theirs)

    def begin(self) -> bytes:
        """What this end sends before it hears anything."""
        return b"" if self._listens else MAGIC + self._nonce

    def feed(self, data: bytes) -> bytes:
        """Takes bytes of the peer and returns the answer; HandshakeError as soon as they cannot be right."""
        self._data += data
        answer = b""
        if not self._theirs:
            length = len(MAGIC) + NONCE_BYTES
            if not MAGIC.startswith(self._data[: len(MAGIC)]):
                raise HandshakeError("it does not speak the protocol of this harness's hosts")
            if len(self._data) < length:
                return b""
            self._theirs, self._data = self._data[len(MAGIC) : length], self._data[length:]
            answer = MAGIC + self._nonce + self._proof(self._listens) if self._listens else b""
        return answer + self._check()

    def _check(self) -> bytes:
        if self.passed or len(self._data) < _PROOF_BYTES:
            return b""
        proof, self.rest = self._data[:_PROOF_BYTES], self._data[_PROOF_BYTES:]
        if not hmac.compare_digest(proof, self._proof(not self._listens)):
            raise HandshakeError("it has another key")
        self.passed = True
        return b"" if self._listens else self._proof(self._listens)

    def _proof(self, of_listener: bool) -> bytes:
        """What the listener, or the dialer, proves its key with."""
        mine_first = self._listens == of_listener
        nonces = self._nonce + self._theirs if mine_first else self._theirs + self._nonce
        side = b"listener" if of_listener else b"dialer"
        return hmac.digest(self._key, b"|".join((side, self._purpose.value, nonces)), "sha256")
