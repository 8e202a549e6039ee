"""Tests a zygote and workers of this host, with a controller that the test plays."""

from __future__ import annotations

import os
import signal
import sys
import unittest

from harness.agent.hosted_zygote import HostedZygote
from harness.hosts.loop import Loop
from harness.hosts.messages import ZYGOTE, Claim, Data, Message, Stream, ZygoteEnded
from harness.runner import messages
from harness.runner.messages import Done, Ended, Fork, Forked, Gone, Item, Kill, Load, Ready
from harness.runner.scheduling.plan import Attempt
from harness.wire import FrameReader, framed
from suites.selftest.runner import runs
from suites.selftest.runner.workers.test_workers import gone

BODY = """
class T(unittest.TestCase):
    def test_1(self): print("hello")
    def test_2(self): os.kill(os.getpid(), signal.SIGKILL)
    def test_3(self): os.kill(os.getppid(), signal.SIGKILL)
"""


class HostedZygoteTest(unittest.TestCase):
    """A zygote that has loaded a module of the test's."""

    def setUp(self) -> None:
        directory = runs.new_directory(self)
        runs.write_module(directory, "test_m", BODY)
        self.loop = Loop()
        self.addCleanup(self.loop.close)
        self.sent: list[Message] = []
        path = [str(directory), *sys.path]
        self.zygote = HostedZygote(runs.environ(directory), {}, path, self.loop, self.sent.append)
        self.addCleanup(self.zygote.close)
        self.order(Load(["test_m"]))
        self.until(lambda: any(isinstance(each, Ready) for each in self.said(ZYGOTE)))

    def order(self, order: messages.Message) -> None:
        """The controller's relay passes on an order."""
        self.zygote.take(framed(messages.encode(order)))

    def until(self, seen: object) -> None:
        """Serves until ``seen`` returns something true."""
        assert callable(seen)
        while not seen():
            self.loop.step(runs.PATIENCE_S)

    def bytes_of(self, number: int, stream: Stream) -> bytes:
        """What a worker, or the zygote, has said on a stream."""
        data = (each for each in self.sent if isinstance(each, Data) and each.launch == number)
        return b"".join(each.payload for each in data if each.stream is stream)

    def said(self, number: int) -> list[messages.Message]:
        """The messages of a worker, or of the zygote."""
        return [messages.decode(f) for f in FrameReader().feed(self.bytes_of(number, Stream.CHANNEL))]

    def start(self, *names: str) -> None:
        """Orders worker 1 for tests of the module."""
        items = [Item(n, "test_m", Attempt(f"test_m.T.{name}")) for n, name in enumerate(names, 1)]
        order = Fork("1#1", items, "mark-", asks=True)
        self.zygote.fork(1, messages.encode(order).decode())

    def gone(self) -> list[Gone]:
        """The end of the worker, if it has been told."""
        return [each for each in self.said(ZYGOTE) if isinstance(each, Gone)]

    def ended(self) -> list[Message]:
        """The end of the zygote, if it has been told; what the worker's pipes held may come after it."""
        return [each for each in self.sent if isinstance(each, ZygoteEnded)]

    def test_batch(self) -> None:
        """A worker asks for each test, and runs those that it is granted; all is sent before its end."""
        self.start("test_1", "test_2")
        self.until(lambda: Claim(1) in self.sent)
        self.zygote.claimed(1, granted=True)
        self.until(lambda: self.sent.count(Claim(1)) == 2)
        self.zygote.claimed(1, granted=False)
        self.until(self.gone)
        statuses = [each.record["status"] for each in self.said(1) if isinstance(each, Ended)]
        self.assertEqual((statuses, self.gone()[0].code), (["passed"], 0))
        self.assertIn(Done(), self.said(1))
        self.assertIn(b"hello", self.bytes_of(1, Stream.OUTPUT))
        told = max(n for n, each in enumerate(self.sent) if isinstance(each, Data) and each.launch == ZYGOTE)
        self.assertTrue(all(isinstance(each, Data) and each.launch == ZYGOTE for each in self.sent[told:]))
        before = len(os.listdir("/proc/self/fd"))
        self.zygote.forget(1)
        self.zygote.forget(1)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before - 4)

    def test_crash(self) -> None:
        """The zygote tells of a worker that dies."""
        self.start("test_2")
        self.zygote.claimed(1, granted=True)
        self.until(self.gone)
        self.assertEqual(self.gone()[0].code, -signal.SIGKILL)

    def test_killed(self) -> None:
        """The controller's order ends a worker that waits for its next test."""
        self.start("test_1")
        self.until(lambda: Claim(1) in self.sent)
        self.order(Kill("1#1", signal.SIGKILL, True))
        self.until(self.gone)
        self.zygote.claimed(1, granted=True)  # too late, and no error

    def test_zygote_dies(self) -> None:
        """The end of the zygote is told, with how it ended."""
        self.start("test_3")
        self.zygote.claimed(1, granted=True)
        self.until(self.ended)
        self.assertEqual(self.ended(), [ZygoteEnded("signal SIGKILL")])
        pid = next(each.pid for each in self.said(ZYGOTE) if isinstance(each, Forked))
        self.assertTrue(gone(pid))


if __name__ == "__main__":
    unittest.main()
