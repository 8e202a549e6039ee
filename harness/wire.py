"""Length-prefixed frames on a stream socket, by which parent, server and ranks exchange messages.

A frame is a 4-byte big-endian length and that many bytes. Descriptors are sent as ancillary data. This module
does not know what a frame means; ``protocol`` does.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence

from harness.errors import ProtocolError

_LENGTH = struct.Struct(">I")
MAX_FRAME_BYTES = 256 * 1024 * 1024  # far above any real message: a larger length is not from the harness
# The same for a rank's report. The limit is also what a rank that writes garbage can make its parent keep.
MAX_REPORT_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_CUT_OFF = "the peer went away in the middle of a message"
_FDS_A_MESSAGE = 240  # Linux refuses more than 253 descriptors in one message (SCM_MAX_FD)


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets that block, whatever ``socket.setdefaulttimeout`` a test has set."""
    near, far = socket.socketpair()
    near.settimeout(None)
    far.settimeout(None)
    return near, far


def socket_from(fd: int) -> socket.socket:
    """The socket of a descriptor, which it owns; it blocks, whatever default timeout a test has set."""
    sock = socket.socket(fileno=fd)
    sock.settimeout(None)
    return sock


def send_frame(sock: socket.socket, payload: bytes) -> None:
    """Sends one frame on a blocking socket; OSError where the peer has ended."""
    sock.sendall(framed(payload))


def framed(payload: bytes) -> bytes:
    """The bytes of one frame."""
    return _LENGTH.pack(len(payload)) + payload


def recv_frame(sock: socket.socket) -> bytes | None:
    """Receives one frame from a blocking socket; None at the stream's end, ProtocolError inside one."""
    header = _recv_exactly(sock, _LENGTH.size)
    if header is None:
        return None
    (length,) = _LENGTH.unpack(header)
    _check_length(length)
    body = _recv_exactly(sock, length) if length else b""
    if body is None:
        raise ProtocolError(_CUT_OFF)
    return body


def _recv_exactly(sock: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        chunk = sock.recv(min(count - len(data), 1 << 20))
        if not chunk:
            if data:
                raise ProtocolError(_CUT_OFF)
            return None
        data += chunk
    return bytes(data)


def _check_length(length: int, most: int = MAX_FRAME_BYTES) -> None:
    if length > most:
        raise ProtocolError(f"a message of {length} bytes: something else wrote to this descriptor")


class FrameReader:
    """Splits the bytes that are read from a non-blocking socket into frames of ``most`` bytes at most."""

    def __init__(self, most: int = MAX_FRAME_BYTES) -> None:
        self._data = bytearray()
        self._most = most

    @property
    def within(self) -> bool:
        """Whether the bytes so far end inside a frame."""
        return bool(self._data)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Adds bytes and yields each complete frame; ProtocolError for an impossible length."""
        self._data += data
        while len(self._data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data)
            _check_length(length, self._most)
            end = _LENGTH.size + length
            if len(self._data) < end:
                return
            frame = bytes(self._data[_LENGTH.size : end])
            del self._data[:end]
            yield frame


class FrameStream:
    """Receives frames from a blocking socket that carries no descriptors, because it reads ahead."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reader = FrameReader()
        self._frames: deque[bytes] = deque()

    def next(self) -> bytes | None:
        """The next frame; None at the stream's end, ProtocolError where the stream ends inside a frame."""
        while not self._frames:
            data = self._sock.recv(_CHUNK_BYTES)
            if not data:
                if self._reader.within:
                    raise ProtocolError(_CUT_OFF)
                return None
            if not self._reader.within and (frame := only_frame(data)) is not None:
                return frame
            self._frames.extend(self._reader.feed(data))
        return self._frames.popleft()


def only_frame(data: bytes) -> bytes | None:
    """The payload of ``data`` where it is exactly one frame, else None."""
    size = _LENGTH.size
    return data[size:] if len(data) >= size and _LENGTH.unpack_from(data)[0] == len(data) - size else None


def read_available(fd: int) -> bytes | None:
    """At most one chunk of what a non-blocking descriptor holds: b"" for nothing yet, None at its end."""
    try:
        data = os.read(fd, _CHUNK_BYTES)
    except BlockingIOError:
        return b""
    except OSError:
        return None  # a connection that a dying peer reset has ended, too
    return data or None


def send_fds(sock: socket.socket, fds: Sequence[int]) -> None:
    """Sends descriptors; the receiver must know their number, for example from the frame before."""
    for start in range(0, len(fds), _FDS_A_MESSAGE):
        part = fds[start : start + _FDS_A_MESSAGE]
        sock.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", part))])


def recv_fds(sock: socket.socket, count: int) -> list[int]:
    """Receives ``count`` descriptors that ``send_fds`` sent; ProtocolError where there are fewer."""
    fds: list[int] = []
    while len(fds) < count:
        wanted = min(count - len(fds), _FDS_A_MESSAGE)
        data, received, _, _ = socket.recv_fds(sock, 1, wanted)
        fds += received
        if not data or len(received) != wanted:
            for fd in fds:
                os.close(fd)
            raise ProtocolError(f"{len(fds)} of {count} descriptors came")
    for fd in fds:
        os.set_inheritable(fd, False)  # a received descriptor would survive an exec otherwise
    return fds
