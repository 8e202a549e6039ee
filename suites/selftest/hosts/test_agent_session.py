"""Tests links to hosts that the test plays: clocks, silence, and hosts that say what they must not."""

from __future__ import annotations

import socket
import threading
import time
import unittest

from harness.hosts.agent_session import Link, connect
from harness.hosts.connection import Connection, listen
from harness.hosts.handshake import Purpose
from harness.hosts.hosts import Host
from harness.hosts.listener import Listener
from harness.hosts.loop import Loop
from harness.hosts.messages import End, Message, Ping, Pong, Settled, encode
from harness.wire import framed

KEY = b"k" * 32
# Seconds by which the played host's clock is behind, and what only a broken self-test waits.
BEHIND_S, LONG_S = 1000.0, 300.0


class ConnectTest(unittest.TestCase):
    """How ``connect`` begins a session."""

    def test_clock(self) -> None:
        """The difference of the clocks is found within the time of a round trip, and told to the host."""
        listener = Listener(listen("127.0.0.1"), KEY, Purpose.SESSION)
        self.addCleanup(listener.close)
        host = Host("a", "127.0.0.1", listener._socket.getsockname()[1], 1, 2)
        settled: list[Message] = []

        def be_host() -> None:
            came: list[Connection] = []
            while not came:
                came += [connection for connection, _ in listener.enter()]
            while not settled:
                for message in came[0].receive():
                    if isinstance(message, Ping):
                        came[0].send(Pong(message.sent_s, time.monotonic() - BEHIND_S))
                    else:
                        settled.append(message)
            came[0].close()

        thread = threading.Thread(target=be_host)
        thread.start()
        link = connect(host, KEY, LONG_S)
        thread.join()
        link.close()
        self.assertAlmostEqual(link.shift_s, BEHIND_S, delta=LONG_S)
        self.assertEqual(settled, [Settled(link.shift_s, LONG_S)])


class LinkTest(unittest.TestCase):
    """A link in a loop, with a host that the test plays."""

    def setUp(self) -> None:
        near, self.host = socket.socketpair()
        self.addCleanup(self.host.close)
        self.loop = Loop()
        self.addCleanup(self.loop.close)
        self.link = Link(Host("a", "127.0.0.1", 1, 2, 2), Connection(near), 0.0)
        self.addCleanup(self.link.close)
        self.came: list[Message] = []
        self.lost: list[str] = []
        self.link.attach(self.loop, self.came.append, self.lost.append)

    def test_messages(self) -> None:
        """What the host says comes in order, but for its answers to pings."""
        self.host.sendall(b"".join(framed(encode(m)) for m in (End(1), Pong(0.0, 0.0), End(2))))
        self.loop.step(LONG_S)
        self.assertEqual((self.came, self.lost), ([End(1), End(2)], []))

    def test_ends(self) -> None:
        """A host is lost once, with the reason, however its connection ends."""
        for what, reason in ((b"", "closed"), (framed(b"{}"), "no message")):
            with self.subTest(reason):
                self.setUp()
                self.host.sendall(what) if what else self.host.close()
                self.loop.step(LONG_S)
                self.link.send(End(3))
                self.link.ping(0.0)
                self.assertEqual(len(self.lost), 1)
                self.assertIn(reason, self.lost[0])

    def test_silence(self) -> None:
        """A host that is silent for too long is lost, unless it is busy."""
        self.link._connection.heard_s -= LONG_S
        self.link.ping(LONG_S, busy=True)
        self.assertEqual(self.lost, [])
        self.link.ping(LONG_S)
        self.assertIn("has said nothing", self.lost[0])

    def test_pause(self) -> None:
        """While too much of it waits to be taken, a host is not read, and is not silent."""
        self.link.pause_above(1 << 30)
        self.host.sendall(framed(encode(End(1))))
        self.loop.step(0.0)
        self.assertEqual(self.came, [])
        self.link._connection.heard_s -= LONG_S
        self.link.ping(LONG_S)
        self.link.pause_above(0)
        self.loop.step(LONG_S)
        self.assertEqual((self.came, self.lost), ([End(1)], []))


if __name__ == "__main__":
    unittest.main()
