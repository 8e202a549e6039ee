"""Tests messages over one TCP connection: whole, without waiting, and with a clear word at its end."""

from __future__ import annotations

import socket
import threading
import unittest

from harness.errors import ProtocolError
from harness.hosts.connection import Connection, HostGone, dial, listen
from harness.hosts.handshake import HandshakeError, Purpose
from harness.hosts.listener import Listener
from harness.hosts.messages import Data, Goodbye, Message, Ping, Stream, encode
from harness.wire import framed

KEY, OTHER = b"k" * 32, b"o" * 32


class PairTest(unittest.TestCase):
    """Two connected ends."""

    def setUp(self) -> None:
        one, two = socket.socketpair()
        self.near, self.far = Connection(one), Connection(two)
        self.addCleanup(self.near.close)
        self.addCleanup(self.far.close)

    def receive_all(self, count: int) -> list[Message]:
        """The next ``count`` messages at the far end, while the near end sends what waits."""
        got: list[Message] = []
        while len(got) < count:
            self.near.flush()
            got += self.far.receive()
        return got

    def test_in_order(self) -> None:
        """Messages come in order, the large ones too, and sending waits for nobody."""
        sent: list[Message] = [Ping(1.0), Data(1, 0, Stream.OUTPUT, bytes(3 << 20)), Goodbye()]
        for message in sent:
            self.near.send(message)
        self.assertGreater(self.near.waiting, 0)
        self.assertEqual(self.receive_all(3), sent)
        self.assertEqual(self.near.waiting, 0)

    def test_what_waits_is_no_silence(self) -> None:
        """What waits to be received is no silence, however long nobody has received it."""
        self.far.heard_s -= 1000.0
        self.assertGreaterEqual(self.far.silent_s(), 1000.0)
        self.near.send(Goodbye())
        self.assertEqual(self.far.silent_s(), 0.0)
        self.assertEqual(self.far.receive(), [Goodbye()])
        self.assertLess(self.far.silent_s(), 1000.0)

    def test_flush_below(self) -> None:
        """Who waits until the peer has taken enough goes on when it has."""
        self.near.send(Data(1, 0, Stream.OUTPUT, bytes(3 << 20)))
        got: list[Message] = []

        def read() -> None:
            while not got:
                got.extend(self.far.receive())

        reader = threading.Thread(target=read)
        reader.start()
        self.near.flush_below(0)
        reader.join()
        self.assertEqual(self.near.waiting, 0)

    def test_end(self) -> None:
        """The end of the connection is HostGone for who reads and for who sends."""
        self.near.close()
        with self.assertRaisesRegex(HostGone, "closed the connection"):
            self.far.receive()
        with self.assertRaises(HostGone):
            for _ in range(100):
                self.far.send(Goodbye())

    def test_no_message(self) -> None:
        """Bytes that are no message are a ProtocolError."""
        one, two = socket.socketpair()
        with one:
            far = Connection(two)
            self.addCleanup(far.close)
            one.sendall(framed(b"no message"))
            with self.assertRaises(ProtocolError):
                far.receive()

    def test_first_bytes(self) -> None:
        """Bytes that were read behind the handshake come first, also where no more come."""
        one, two = socket.socketpair()
        with one:
            far = Connection(two, framed(encode(Ping(2.0))))
            self.addCleanup(far.close)
            self.assertEqual(far.receive_one(0.0), Ping(2.0))

    def test_silence(self) -> None:
        """Who waits for one message gives up in the end."""
        with self.assertRaisesRegex(HostGone, "did not answer within 0.01 s"):
            self.far.receive_one(0.01)


class DialTest(unittest.TestCase):
    """``dial`` and ``listen``."""

    def test_only_the_given_address(self) -> None:
        """Who listens on one address is not reached at another."""
        with listen("127.0.0.2") as listener:
            port = listener.getsockname()[1]
            with self.assertRaisesRegex(HostGone, "cannot be reached"):
                dial("127.0.0.1", port, KEY, Purpose.SESSION)

    def test_keys(self) -> None:
        """With the key there is a connection, and with another one an error that says so."""
        listener = Listener(listen("127.0.0.1"), KEY, Purpose.SESSION)
        self.addCleanup(listener.close)
        port = listener._socket.getsockname()[1]
        came: list[Connection] = []

        def serve() -> None:
            while not came:
                came.extend(connection for connection, _ in listener.enter())

        server = threading.Thread(target=serve)
        server.start()
        try:
            with self.assertRaisesRegex(HandshakeError, "another key"):
                dial("127.0.0.1", port, OTHER, Purpose.SESSION)
            connection = dial("127.0.0.1", port, KEY, Purpose.SESSION)
            self.assertEqual(connection.own_address, "127.0.0.1")
            connection.close()
        finally:
            server.join()
        self.assertEqual(len(came), 1)
        came[0].close()


if __name__ == "__main__":
    unittest.main()
