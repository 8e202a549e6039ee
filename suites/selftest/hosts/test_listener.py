"""Tests that only peers with the key come through a listener, whatever else knocks."""

from __future__ import annotations

import contextlib
import select
import socket
import unittest
from unittest import mock

from harness.hosts import listener as listener_module
from harness.hosts.connection import Connection, listen
from harness.hosts.handshake import MAGIC, Handshake, HandshakeError, Purpose
from harness.hosts.listener import MOST_WAITING, Listener

KEY = b"k" * 32


class ListenerTest(unittest.TestCase):
    """A listening socket and those who connect to it."""

    def setUp(self) -> None:
        listener = listen("127.0.0.1")
        self.address = listener.getsockname()
        self.listener = Listener(listener, KEY, Purpose.SESSION)
        self.addCleanup(self.listener.close)
        self.entered: list[Connection] = []
        self.addCleanup(self.close_entered)

    def close_entered(self) -> None:
        """Closes what has come in."""
        for connection in self.entered:
            connection.close()

    def connect(self) -> socket.socket:
        """A new peer."""
        sock = socket.create_connection(self.address)
        self.addCleanup(sock.close)
        return sock

    def step(self) -> None:
        """Has the listener do what there is to do, once there is something."""
        poll = select.poll()
        for fd in self.listener.descriptors():
            poll.register(fd, select.POLLIN)
        poll.poll()
        self.entered += [connection for connection, _ in self.listener.enter()]

    def answer(self, sock: socket.socket, handshake: Handshake) -> bytes:
        """What the listener says to one who begins."""
        sock.sendall(handshake.begin())
        sock.setblocking(False)
        data = b""
        while not data:
            self.step()
            with contextlib.suppress(BlockingIOError):
                data = sock.recv(4096)
        return data

    def prove(self, sock: socket.socket) -> None:
        """Passes the handshake as somebody who has the key."""
        handshake = Handshake(KEY, Purpose.SESSION, listens=False)
        data = self.answer(sock, handshake)
        sock.sendall(handshake.feed(data))
        count = len(self.entered)
        while len(self.entered) == count:
            self.step()

    def test_key(self) -> None:
        """Who has the key comes in."""
        self.prove(self.connect())
        self.assertEqual(len(self.entered), 1)
        self.assertEqual(self.listener.refused, [])
        self.assertIsNone(self.listener.wait_s())

    def test_garbage_and_silence(self) -> None:
        """Who sends anything else, or ends, is turned away with the reason, and nothing of it is read."""
        garbage, ended = self.connect(), self.connect()
        garbage.sendall(b"GET / HTTP/1.0\r\n\r\n")
        ended.close()
        while len(self.listener.refused) < 2:
            self.step()
        said = "\n".join(self.listener.refused)
        self.assertIn("does not speak the protocol", said)
        self.assertIn("closed the connection", said)
        self.assertNotIn("another key", said)
        self.assertEqual(self.entered, [])

    def test_other_key(self) -> None:
        """Who has another key sees so first and ends; the line here says what that means."""
        sock = self.connect()
        handshake = Handshake(b"another", Purpose.SESSION, listens=False)
        with self.assertRaisesRegex(HandshakeError, "another key"):
            handshake.feed(self.answer(sock, handshake))
        sock.close()
        while not self.listener.refused:
            self.step()
        self.assertIn("as from one with another key", self.listener.refused[0])

    def test_flood(self) -> None:
        """Silent peers fill the room that there is for such, and one with the key comes in all the same."""
        flood = [self.connect() for _ in range(2 * MOST_WAITING)]
        flood[-1].sendall(MAGIC)
        self.prove(self.connect())
        self.assertEqual(len(self.entered), 1)
        self.assertLessEqual(len(self.listener.descriptors()), 1 + MOST_WAITING)
        self.assertIn("there are too many", self.listener.refused[0])

    def test_too_slow(self) -> None:
        """Who proves nothing in time is turned away."""
        with mock.patch.object(listener_module, "HANDSHAKE_S", 0.0):
            self.connect()
            self.step()
            while not self.listener.refused:
                self.entered += [connection for connection, _ in self.listener.enter()]
        self.assertIn("did not prove its key", self.listener.refused[0])


if __name__ == "__main__":
    unittest.main()
