"""Tests the relay with a host that the test plays: what it refuses, and how it measures clocks."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
import unittest
from dataclasses import replace

from harness.errors import LaunchError
from harness.hosts.agent_session import Link
from harness.hosts.connection import Connection
from harness.hosts.hosts import Host
from harness.hosts.lost_hosts import AGAIN_S, LostHosts
from harness.hosts.messages import (
    Began,
    Data,
    HostSwept,
    Message,
    RankEnded,
    Stream,
    encode,
)
from harness.protocol import HostLost, Launch, ModuleRef
from harness.protocol import decode as decode_protocol
from harness.ranks.hosts.relay import Relay, reach
from harness.ranks.processes.rank_set import RankSet
from harness.wire import framed, recv_frame, socket_pair

KEY = b"k" * 32
# Seconds by which the played host's clock is behind, and what only a broken self-test waits.
BEHIND_S, LONG_S = 1000.0, 300.0
REQUEST = Launch(ModuleRef("m"), "C", "t", 1, "", {}, "/", [], [])


class HostTest(unittest.TestCase):
    """One rank on a host that the test plays."""

    def setUp(self) -> None:
        near, self.host = socket.socketpair()
        self.addCleanup(self.host.close)
        self.control, far = socket_pair()
        self.addCleanup(self.control.close)
        link = Link(Host("a", "127.0.0.1", 1, 2, 2), Connection(near), 0.0)
        relay = Relay(far, [link], {}, LONG_S)
        thread = threading.Thread(target=relay.run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.control.shutdown, socket.SHUT_RDWR)
        self.ranks = RankSet(REQUEST)
        self.addCleanup(self.ranks.close)

    def start(self) -> None:
        """Launches the rank, whose host says at once that it exists."""
        starter = threading.Thread(target=self.answer)
        starter.start()
        self.ranks.start(self.control, REQUEST, LONG_S)
        starter.join()

    def answer(self) -> None:
        """Waits for Begin, behind some pings, and answers it."""
        while b"Begin" not in (recv_frame(self.host) or b"Begin"):
            continue
        self.say(Began(1, [10]))

    def say(self, message: Message) -> None:
        """The host says something."""
        self.host.sendall(framed(encode(message)))

    def test_started(self) -> None:
        """The parent knows the rank's process and host."""
        self.start()
        self.assertEqual((self.ranks.pids, self.ranks.hosts), ([10], ["a"]))
        self.say(RankEnded(1, 0, 0, 0))
        self.say(HostSwept(1, []))

    def test_too_few_hosts(self) -> None:
        """Ranks that have to be on more hosts than are left are refused, with those that are."""
        request = replace(REQUEST, world_size=2, least_hosts=2)
        ranks = RankSet(request)
        self.addCleanup(ranks.close)
        with self.assertRaisesRegex(LaunchError, "2 ranks have to be on 2 hosts; what there is: a"):
            ranks.start(self.control, request, LONG_S)

    def test_wrong_words(self) -> None:
        """A host that sends what is no message, or is of no rank or launch, is lost with the reason."""
        self.start()
        self.say(Data(1, 7, Stream.OUTPUT, b"x"))
        frame = recv_frame(self.ranks.events)
        assert frame is not None
        message = decode_protocol(frame)
        assert isinstance(message, HostLost)
        self.assertEqual(message.ranks, [0])
        self.assertIn("host a was lost: it sent what is no message", message.why)


class ReachTest(unittest.TestCase):
    """A host that stalls: the kernel takes connections, and nobody answers."""

    def setUp(self) -> None:
        self.undo = contextlib.ExitStack()
        self.addCleanup(self.undo.close)
        self.listener = self.undo.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.listener.setblocking(False)
        self.host = Host("a", "127.0.0.1", self.listener.getsockname()[1], 1, 2)
        self.now_s = 1000.0
        self.key_file = f"{self.undo.enter_context(tempfile.TemporaryDirectory())}/key"

    def reach(self, patience_s: float) -> str:
        """What a new process says of the host, for which it would wait so long."""
        links, lost = reach([self.host], KEY, patience_s, LostHosts(self.key_file, lambda: self.now_s))
        self.assertEqual(links, [])
        return lost["a"]

    def dialled(self) -> int:
        """How often the host was dialled since the last call."""
        count = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                self.listener.accept()[0].close()
                count += 1
        return count

    def test_dialled_once(self) -> None:
        """The first process waits for it, the next ones do not, until it is to be asked again."""
        said = self.reach(0.2)
        self.assertIn("host a was lost: ", said)
        self.assertEqual(self.dialled(), 1)
        self.assertEqual((self.reach(LONG_S), self.dialled()), (said, 0))
        self.now_s += AGAIN_S
        self.assertEqual((self.reach(0.2), self.dialled()), (said, 1))
        self.assertEqual((self.reach(LONG_S), self.dialled()), (said, 0))


if __name__ == "__main__":
    unittest.main()
