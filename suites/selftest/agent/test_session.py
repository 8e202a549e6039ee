"""Tests what a session adapts for pooled ranks, and that it refuses what no parent sends."""

from __future__ import annotations

import os
import socket
import unittest
from unittest import mock

from harness.agent.session import Session
from harness.errors import ProtocolError
from harness.hosts.connection import Connection, HostGone
from harness.hosts.messages import Begin, Data, NotBegun, Ping, Pong, Stream, Welcome
from harness.protocol import Launch, ModuleRef, RepeatLaunch, decode, encode

REQUEST = Launch(ModuleRef("m"), "C", "t", 2, "", {"HARNESS_HOSTS": "x", "A": "1"}, "/", [], [])


class SessionTest(unittest.TestCase):
    """A session whose parent is the test."""

    def setUp(self) -> None:
        near, far = socket.socketpair()
        self.parent = Connection(near)
        self.addCleanup(self.parent.close)
        connection = Connection(far)
        self.addCleanup(connection.close)
        self.session = Session(connection, "127.0.0.1")
        self.addCleanup(self.session._loop.close)

    def test_answers(self) -> None:
        """A ping is answered with its time."""
        self.session._take(Ping(4.0))
        answer = self.parent.receive_one(300.0)
        assert isinstance(answer, Pong)
        self.assertEqual(answer.sent_s, 4.0)

    def test_busy(self) -> None:
        """A session that was busy for longer than its parent may be silent hears first what has come."""
        self.session._connection.heard_s -= 1000.0
        self.parent.send(Ping(4.0))
        self.session._wait_s(0.0)
        self.session._hear()
        self.assertIsInstance(self.parent.receive_one(300.0), Pong)
        self.session._connection.heard_s -= 1000.0
        with self.assertRaises(HostGone):
            self.session._wait_s(0.0)

    def test_refusals(self) -> None:
        """A launch that is none is refused with its reason; what is no message to an agent is an error."""
        self.session._take(Begin(1, "nonsense", "", ["a"], ""))
        answer = self.parent.receive_one(300.0)
        assert isinstance(answer, NotBegun)
        self.assertIn("not a message", answer.reason)
        with self.assertRaises(ProtocolError):
            self.session._take(Welcome())

    def test_of_no_launch(self) -> None:
        """Bytes for a launch that has ended meanwhile are dropped."""
        self.session._take(Data(9, 0, Stream.CHANNEL, b"x"))

    def test_next_test_of_pooled_ranks(self) -> None:
        """The launch of a further test gets this host's variables; a repetition stays as it is."""
        with mock.patch.dict(os.environ, {"TMPDIR": "/ours", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}):
            frame = self.session._adapt(
                encode(REQUEST), "127.0.0.1:5", "not shared", {"CUDA_VISIBLE_DEVICES": "2,3"}
            )
        adapted = decode(frame)
        assert isinstance(adapted, Launch)
        self.assertEqual(adapted.environ["HARNESS_STORE"], "127.0.0.1:5")
        self.assertEqual(adapted.environ["TMPDIR"], "/ours")
        self.assertEqual(adapted.environ["CUDA_VISIBLE_DEVICES"], "2,3")
        self.assertNotIn("HARNESS_HOSTS", adapted.environ)
        repeated = encode(RepeatLaunch("test", "file"))
        self.assertEqual(self.session._adapt(repeated, "127.0.0.1:5", "", {}), repeated)


if __name__ == "__main__":
    unittest.main()
