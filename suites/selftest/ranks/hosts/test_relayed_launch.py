"""Tests what a parent hears of ranks on other hosts, in which order, and what is passed on to them."""

from __future__ import annotations

import os
import unittest

from harness.hosts.messages import Data, Stream
from harness.protocol import Exited, HostLost, Launched, Refused, Signal, Swept, encode
from harness.wire import send_frame
from suites.selftest.ranks.hosts.played_launch import PlayedLaunch


class RelayedLaunchTest(unittest.TestCase):
    """A launch over two hosts."""

    def setUp(self) -> None:
        self.played = PlayedLaunch(self)
        self.launch = self.played.launch

    def begin(self) -> None:
        """Starts the ranks."""
        self.played.place()
        self.assertEqual(self.played.begin(), Launched([10, 11], ["a", "b"], [0.5, -0.5]))

    def data(self, rank: int, stream: Stream, payload: bytes) -> None:
        """Bytes of a rank come from its host."""
        self.launch.take(Data(1, rank, stream, payload))

    def test_from_start_to_end(self) -> None:
        """All that a rank has said is there before its exit is told; the sweep comes when all are swept."""
        self.begin()
        self.data(1, Stream.CHANNEL, b"report")
        self.data(1, Stream.OUTPUT, b"printed")
        self.data(1, Stream.STACK, b"stack")
        self.launch.rank_ended(Exited(1, -9, 5))
        self.assertEqual(self.played.hear(), Exited(1, -9, 5))
        self.assertEqual(self.played.channels[1].recv(100), b"report")
        self.assertEqual(os.read(self.played.outputs[1], 100), b"printed")
        self.assertEqual(os.read(self.played.stacks[1], 100), b"stack")
        self.launch.swept("b", ["left"])
        self.assertFalse(self.launch.done)
        self.launch.rank_ended(Exited(0, 0, 6))
        self.launch.swept("a", [])
        self.assertEqual(self.played.hear(), Exited(0, 0, 6))
        self.assertEqual(self.played.hear(), Swept(["left"]))
        self.assertIsNone(self.played.hear())
        self.assertTrue(self.launch.done)

    def test_ends_before_all_exist(self) -> None:
        """A rank that ends before those of a slower host exist is told of after them."""
        self.played.place()
        self.launch.began("b", [11], {})
        self.launch.rank_ended(Exited(1, 3, 5))
        self.launch.swept("b", [])
        self.launch.began("a", [10], {"a": 0.5, "b": -0.5})
        self.assertEqual(self.played.hear(), Launched([10, 11], ["a", "b"], [0.5, -0.5]))
        self.assertEqual(self.played.hear(), Exited(1, 3, 5))

    def test_exit_waits_for_output(self) -> None:
        """An exit waits until the parent has taken what the rank had printed."""
        self.begin()
        data = bytes(1 << 20)
        self.data(0, Stream.OUTPUT, data)
        self.launch.rank_ended(Exited(0, 0, 0))
        self.assertGreater(self.launch.waiting_from("a"), 0)
        self.assertEqual(self.launch.waiting_from("b"), 0)
        self.played.events.setblocking(False)
        with self.assertRaises(BlockingIOError):
            self.played.events.recv(1)
        self.played.events.setblocking(True)
        got = 0
        while got < len(data):
            got += len(os.read(self.played.outputs[0], 1 << 16))
            self.played.loop.step(0)
        self.assertEqual(self.played.hear(), Exited(0, 0, 0))

    def test_after_its_end(self) -> None:
        """What comes of a launch that is done is dropped: its descriptors may be somebody else's."""
        self.begin()
        for rank, host in enumerate(("a", "b")):
            self.launch.rank_ended(Exited(rank, 0, 0))
            self.launch.swept(host, [])
        self.assertTrue(self.launch.done)
        for stream in Stream:
            self.data(0, stream, b"late")
        self.assertEqual(os.pread(self.played.logs[0], 4, 0), bytes(4))

    def test_end_of_a_stream(self) -> None:
        """A stream that a rank has closed is at its end for the parent too."""
        self.begin()
        for stream in (Stream.CHANNEL, Stream.OUTPUT, Stream.STACK):
            self.data(0, stream, b"")
        self.assertEqual(self.played.channels[0].recv(1), b"")
        self.assertEqual(os.read(self.played.outputs[0], 1), b"")
        self.assertEqual(os.read(self.played.stacks[0], 1), b"")

    def test_what_the_parent_says(self) -> None:
        """Bytes for a rank, signals, and the parent's end are passed on."""
        self.begin()
        self.played.channels[1].sendall(b"release")
        self.played.loop.step(None)
        send_frame(self.played.events, encode(Signal(0, 15, True)))
        self.played.loop.step(None)
        self.played.events.shutdown(1)
        self.played.loop.step(None)
        self.assertEqual(self.played.said, [(1, b"release"), (0, Signal(0, 15, True)), (None, None)])
        self.assertTrue(self.launch.abandoned)
        for host in ("a", "b"):
            self.launch.swept(host, [])
        self.assertIsNone(self.played.hear())

    def test_host_lost(self) -> None:
        """The ranks of a host that is gone are lost, with why; the others go on to their end."""
        self.begin()
        self.launch.lose("b", "host b was lost: x")
        self.assertEqual(self.played.hear(), HostLost([1], "host b was lost: x"))
        self.launch.lose("c", "another host")
        self.launch.rank_ended(Exited(0, 0, 0))
        self.launch.swept("a", [])
        self.assertEqual(self.played.hear(), Exited(0, 0, 0))
        self.assertEqual(self.played.hear(), Swept([]))

    def test_host_lost_while_it_starts(self) -> None:
        """Where a host goes before its ranks exist, the launch is refused."""
        self.played.place()
        self.assertEqual(self.launch.starting, {"a", "b"})
        self.launch.lose("b", "host b was lost: x")
        self.assertEqual(self.played.hear(), Refused("host b was lost: x, while ranks were started there"))
        self.launch.began("a", [10], {"a": 0.0})
        self.launch.swept("a", [])
        self.assertIsNone(self.played.hear())

    def test_refused_before_it_is_placed(self) -> None:
        """A launch for which there is no host is refused, and everything of it is closed."""
        self.launch.refuse("no host")
        self.assertEqual(self.played.hear(), Refused("no host"))
        self.launch.close()
        self.assertEqual(os.read(self.played.outputs[0], 1), b"")
        self.assertEqual(self.played.channels[0].recv(1), b"")


if __name__ == "__main__":
    unittest.main()
