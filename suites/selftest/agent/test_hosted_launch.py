"""Tests the ranks of a launch on their host, with real ranks and a parent that is the test."""

from __future__ import annotations

import os
import sys
import unittest

from harness.agent.hosted_launch import HostedLaunch
from harness.hosts.loop import Loop
from harness.hosts.messages import Data, HostSwept, Message, RankEnded, Stream
from harness.protocol import Launch, ModuleRef, Release, encode
from harness.ranks.processes.fork_server import ForkServerLauncher
from harness.wire import framed

MODULE = "suites.selftest.faults.hosts"


class HostedLaunchTest(unittest.TestCase):
    """Rank 3 of a world of 4, which is alone on this host."""

    def setUp(self) -> None:
        launcher = ForkServerLauncher()
        self.addCleanup(launcher.close)
        self.loop = Loop()
        self.addCleanup(self.loop.close)
        request = Launch(
            ModuleRef(MODULE), "Alone", "test_prints", 4, "", dict(os.environ), os.getcwd(), sys.path,
            sys.argv, ranks=[3],
        )  # fmt: skip
        self.said: list[Message] = []
        ranks = launcher.launch(request)
        self.assertEqual(len(ranks.pids), 1)
        self.hosted = HostedLaunch(1, ranks, request.started_here, self.loop, self.said.append, 1000.0)
        self.addCleanup(self.hosted.close)

    def streams(self, stream: Stream) -> bytes:
        """What has come of a stream."""
        pieces = [m for m in self.said if isinstance(m, Data) and m.stream is stream]
        self.assertEqual({piece.rank for piece in pieces}, {3})
        return b"".join(piece.payload for piece in pieces)

    def test_to_its_end(self) -> None:
        """The rank's report, its output and its log come before its end, and the sweep comes last."""
        while not any(isinstance(m, Data) and m.stream is Stream.CHANNEL for m in self.said):
            self.loop.step(None)
        self.hosted.give(3, framed(encode(Release())))
        while not self.hosted.done:
            self.loop.step(None)
        ended, swept = self.said[-2:]
        assert isinstance(ended, RankEnded)
        self.assertEqual((ended.launch, ended.rank, ended.code), (1, 3, 0))
        self.assertEqual(swept, HostSwept(1, []))
        self.assertIn(b"rank 3 of 4", self.streams(Stream.OUTPUT))
        self.assertGreater(len(self.streams(Stream.LOG)), 0)

    def test_ended_by_the_parent(self) -> None:
        """A parent that lets go has the rank killed, and hears that nothing is left."""
        self.hosted.end()
        self.hosted.end()
        self.assertEqual([m for m in self.said if isinstance(m, HostSwept)], [HostSwept(1, [])])
        self.assertTrue(self.hosted.done)
        self.hosted.send_logs()
        self.hosted.signal(3, 9, group=True)
        self.loop.step(0)
        self.assertEqual(
            self.said[-1], HostSwept(1, []), "something came behind the last message of a launch"
        )

    def test_signal(self) -> None:
        """A signal reaches the rank, and its end is told by the signal's number."""
        self.hosted.signal(3, 9, group=True)
        while not self.hosted.done:
            self.loop.step(None)
        (ended,) = [m for m in self.said if isinstance(m, RankEnded)]
        self.assertEqual((ended.rank, ended.code), (3, -9))


if __name__ == "__main__":
    unittest.main()
