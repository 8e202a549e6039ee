"""Frames over sockets, in whatever pieces they come, and descriptors beside them."""

from __future__ import annotations

import os
import socket
import struct
import threading
import unittest

from hypothesis import strategies as st

from harness import wire
from harness.errors import ProtocolError
from suites.selftest.properties import given


def frame(payload: bytes) -> bytes:
    """A frame as it is on the wire."""
    return struct.pack(">I", len(payload)) + payload


class DefaultTimeoutTest(unittest.TestCase):
    """Sockets in a process where a test has called ``socket.setdefaulttimeout``."""

    def test_default_timeout(self) -> None:
        """They block all the same, in another process that has their descriptors too."""
        self.addCleanup(socket.setdefaulttimeout, socket.getdefaulttimeout())
        socket.setdefaulttimeout(0.001)
        near, far = wire.socket_pair()
        for sock in (near, far, wire.socket_from(os.dup(far.fileno()))):
            with sock:
                self.assertIsNone(sock.gettimeout())
                self.assertTrue(os.get_blocking(sock.fileno()))


class FrameReaderTest(unittest.TestCase):
    """The reader for non-blocking sockets."""

    @given(st.lists(st.binary(max_size=300), max_size=8), st.data())
    def test_any_chunking(self, payloads: list[bytes], data: st.DataObject) -> None:
        """However the bytes are cut, the same frames come out, each as soon as it is whole."""
        stream = b"".join(frame(p) for p in payloads)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
        reader, got = wire.FrameReader(), []
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            got += list(reader.feed(stream[start:end]))
            whole = 0
            while whole < len(payloads) and len(b"".join(frame(p) for p in payloads[: whole + 1])) <= end:
                whole += 1
            self.assertEqual(len(got), whole)
        self.assertEqual(got, payloads)

    def test_impossible_length(self) -> None:
        """A stray print is noticed by its first bytes, before anything is waited for."""
        with self.assertRaisesRegex(ProtocolError, "something else wrote to this descriptor"):
            list(wire.FrameReader().feed(b"hello"))

    def test_limit(self) -> None:
        """A reader with a limit of its own refuses a longer frame by its length."""
        reader = wire.FrameReader(most=3)
        self.assertEqual(list(reader.feed(frame(b"abc"))), [b"abc"])
        with self.assertRaises(ProtocolError):
            list(reader.feed(frame(b"abcd")[:4]))


class OnlyFrameTest(unittest.TestCase):
    """Bytes that are to be one frame."""

    @given(st.lists(st.binary(max_size=20), max_size=3), st.binary(max_size=5), st.integers(0, 5))
    def test_one_and_nothing_else(self, payloads: list[bytes], more: bytes, cut: int) -> None:
        """Two frames are not, nor is a part of one, nor one with something behind it."""
        data = b"".join(frame(p) for p in payloads) + more
        data = data[: len(data) - cut]
        whole = [p for p in payloads if data == frame(p)]
        self.assertEqual(wire.only_frame(data), whole[0] if whole else _reread(data))


def _reread(data: bytes) -> bytes | None:
    """What a reader makes of bytes that are one frame by accident."""
    try:
        frames = list(wire.FrameReader().feed(data))
    except ProtocolError:
        return None
    return frames[0] if len(frames) == 1 and frame(frames[0]) == data else None


class SocketTest(unittest.TestCase):
    """Frames on blocking sockets."""

    def setUp(self) -> None:
        self.near, self.far = socket.socketpair()
        self.addCleanup(self.near.close)
        self.addCleanup(self.far.close)

    def test_round_trip(self) -> None:
        """Frames arrive as they were sent, empty ones too."""
        for payload in (b"", b"x", bytes(range(256)) * 10):
            wire.send_frame(self.near, payload)
            self.assertEqual(wire.recv_frame(self.far), payload)

    def test_clean_end(self) -> None:
        """A peer that closes between two frames gives None."""
        wire.send_frame(self.near, b"last")
        self.near.close()
        self.assertEqual(wire.recv_frame(self.far), b"last")
        self.assertIsNone(wire.recv_frame(self.far))

    def test_end_within_a_frame(self) -> None:
        """ProtocolError, in the length and in the body."""
        for part in (b"\0\0", frame(b"abcdef")[:6], frame(b"abcdef")[:4]):
            near, far = socket.socketpair()
            with near, far:
                near.sendall(part)
                near.close()
                with self.assertRaisesRegex(ProtocolError, "in the middle of a message"):
                    wire.recv_frame(far)

    def test_impossible_length(self) -> None:
        """ProtocolError without waiting for it."""
        self.near.sendall(b"\xff\xff\xff\xff")
        with self.assertRaises(ProtocolError):
            wire.recv_frame(self.far)

    def test_peer_gone(self) -> None:
        """OSError for the sender."""
        self.far.close()
        with self.assertRaises(OSError):
            wire.send_frame(self.near, b"anybody?")

    def test_read_available(self) -> None:
        """Nothing yet, something, the end."""
        self.far.setblocking(False)
        self.assertEqual(wire.read_available(self.far.fileno()), b"")
        self.near.sendall(b"abc")
        self.assertEqual(wire.read_available(self.far.fileno()), b"abc")
        self.near.close()
        self.assertIsNone(wire.read_available(self.far.fileno()))


class FrameStreamTest(unittest.TestCase):
    """Blocking sockets, read in large pieces."""

    def setUp(self) -> None:
        self.near, self.far = socket.socketpair()
        self.addCleanup(self.near.close)
        self.addCleanup(self.far.close)
        self.stream = wire.FrameStream(self.far)

    @given(st.lists(st.binary(max_size=300), max_size=8))
    def test_frames_that_came_at_once(self, payloads: list[bytes]) -> None:
        """Each by itself, in order."""
        self.near.sendall(b"".join(frame(p) for p in payloads))
        self.assertEqual([self.stream.next() for _ in payloads], payloads)

    def test_frame_larger_than_a_piece(self) -> None:
        """From a peer that waits for the socket to have room again."""
        payload = bytes(range(256)) * 4096
        sender = threading.Thread(target=self.near.sendall, args=(frame(payload) + frame(b"next"),))
        sender.start()
        self.assertEqual(self.stream.next(), payload)
        self.assertEqual(self.stream.next(), b"next")
        sender.join()

    def test_end(self) -> None:
        """None behind the last frame, ProtocolError within one or for an impossible one."""
        self.near.sendall(frame(b"last") + frame(b"abcdef")[:6])
        self.near.close()
        self.assertEqual(self.stream.next(), b"last")
        with self.assertRaisesRegex(ProtocolError, "in the middle of a message"):
            self.stream.next()
        for data, expected in ((b"", None), (b"\xff\xff\xff\xff", ProtocolError)):
            near, far = socket.socketpair()
            with near, far:
                near.sendall(data)
                near.close()
                if expected is None:
                    self.assertIsNone(wire.FrameStream(far).next())
                else:
                    with self.assertRaises(expected):
                        wire.FrameStream(far).next()


class DescriptorTest(unittest.TestCase):
    """Descriptors that follow a frame."""

    def setUp(self) -> None:
        self.near, self.far = socket.socketpair()
        self.addCleanup(self.near.close)
        self.addCleanup(self.far.close)

    def files(self, count: int) -> list[int]:
        """So many descriptors, each of a memory file that says which it is."""
        fds = []
        for number in range(count):
            fd = os.memfd_create("selftest")
            self.addCleanup(os.close, fd)
            os.write(fd, str(number).encode())
            fds.append(fd)
        return fds

    def test_order(self) -> None:
        """More than fit one message (128 ranks need 513), in their order, after a frame."""
        sent = self.files(513)
        wire.send_frame(self.near, b"before")
        wire.send_fds(self.near, sent)
        wire.send_frame(self.near, b"after")
        self.assertEqual(wire.recv_frame(self.far), b"before")
        received = wire.recv_fds(self.far, len(sent))
        for fd in received:
            self.addCleanup(os.close, fd)
        self.assertEqual([os.pread(fd, 10, 0) for fd in received], [str(n).encode() for n in range(513)])
        self.assertEqual(wire.recv_frame(self.far), b"after")

    def test_not_inheritable(self) -> None:
        """A program that the receiver starts gets none of them."""
        wire.send_fds(self.near, self.files(3))
        received = wire.recv_fds(self.far, 3)
        for fd in received:
            self.addCleanup(os.close, fd)
        self.assertEqual([os.get_inheritable(fd) for fd in received], [False] * 3)

    def test_missing(self) -> None:
        """ProtocolError, and none that came is kept."""
        wire.send_fds(self.near, self.files(2))
        self.near.close()
        before = set(os.listdir("/proc/self/fd"))
        with self.assertRaisesRegex(ProtocolError, "2 of 3 descriptors"):
            wire.recv_fds(self.far, 3)
        self.assertEqual(set(os.listdir("/proc/self/fd")), before)


if __name__ == "__main__":
    unittest.main()
