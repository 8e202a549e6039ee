"""Tests the rank's end of its channel: what it says about sub-tests while the test goes on."""

from __future__ import annotations

import os
import socket
import unittest
from multiprocessing import connection

from harness.outcomes import ErrorInfo, Status, SubtestOutcome
from harness.protocol import Passed, RepeatLaunch, SubtestFailed, decode, encode
from harness.ranks.processes.channel import MOST_SUBTESTS, RankChannel
from harness.wire import FrameReader, read_available, send_frame

ERROR = ErrorInfo("AssertionError", "no", "trace", is_assertion=True, pickled=b"not for now")
SUBTEST = SubtestOutcome(None, (("n", "1"),), Status.FAILED, ERROR)


class PipeTest(unittest.TestCase):
    """What code that was written for upstream's pipe does with the channel."""

    def test_wait_for_the_parent(self) -> None:
        """A thread of the rank can wait for the parent, which says nothing and then ends."""
        parent, rank = socket.socketpair()
        self.addCleanup(rank.close)
        channel = RankChannel(rank, 3)
        self.assertEqual(connection.wait([channel], 0), [])  # type: ignore[list-item]  # stands for a pipe
        parent.close()
        self.assertEqual(connection.wait([channel], 5), [channel])  # type: ignore[list-item]
        self.assertFalse(channel.closed)
        with self.assertRaises(EOFError):
            channel.recv()


class SubtestsTest(unittest.TestCase):
    """``subtest_failed``, which reports a failed sub-test before the test is over."""

    def setUp(self) -> None:
        self.parent, rank = socket.socketpair()
        self.addCleanup(self.parent.close)
        self.addCleanup(rank.close)
        self.channel = RankChannel(rank, 3)

    def said(self) -> list[SubtestFailed]:
        """Returns the messages that have come to the parent since the last call."""
        self.parent.setblocking(False)
        data = read_available(self.parent.fileno())
        messages = [decode(frame) for frame in FrameReader().feed(data or b"")]
        assert all(isinstance(m, SubtestFailed) for m in messages)
        return messages  # type: ignore[return-value]  # as asserted above

    def test_says_so_at_once(self) -> None:
        """A failed sub-test is sent at once with its traceback; the exception itself waits for the report."""
        self.channel.subtest_failed(SUBTEST)
        (message,) = self.said()
        assert message.subtest.error is not None
        self.assertEqual((message.rank, message.subtest.key), (3, SUBTEST.key))
        self.assertEqual((message.subtest.error.traceback, message.subtest.error.pickled), ("trace", None))

    def test_says_so_of_the_first(self) -> None:
        """Only the first few sub-tests of each test are sent, so that a busy parent does not hold it up."""
        for _ in range(2):
            for _ in range(MOST_SUBTESTS + 1):
                self.channel.subtest_failed(SUBTEST)
            self.assertEqual(len(self.said()), MOST_SUBTESTS)
            send_frame(self.parent, encode(RepeatLaunch("test_next", "file")))
            self.assertIsInstance(self.channel.next_test(), RepeatLaunch)

    def test_says_nothing_of_a_childs(self) -> None:
        """A child process that the test forked sends nothing, because it is not the rank."""
        pid = os.fork()
        if pid == 0:
            try:
                self.channel.subtest_failed(SUBTEST)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        self.assertEqual(self.said(), [])

    def test_parent_is_gone(self) -> None:
        """A parent that is gone causes no error."""
        self.parent.close()
        self.channel.subtest_failed(SUBTEST)


class UnheardTest(unittest.TestCase):
    """A report that cannot be sent, because the test has closed or exchanged the channel."""

    def setUp(self) -> None:
        self.parent, self.rank = socket.socketpair()
        self.addCleanup(self.parent.close)
        self.addCleanup(self.rank.close)
        self.channel = RankChannel(self.rank, 3)
        self.rank.shutdown(socket.SHUT_WR)
        self.channel.report(Passed(3, 1.0, 1.0, 7))

    def test_release(self) -> None:
        """The rank waits for no release, which never comes."""
        self.channel.wait_for_release()

    def test_next_test(self) -> None:
        """A pooled rank waits for no other test, although its parent could send one."""
        send_frame(self.parent, encode(RepeatLaunch("test_next", "file")))
        self.assertIsNone(self.channel.next_test())


if __name__ == "__main__":
    unittest.main()
