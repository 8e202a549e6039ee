"""Tests the descriptors by which a parent knows its ranks, and how it sends messages on them."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import threading
import unittest
from unittest import mock

from harness.protocol import Launch, ModuleRef
from harness.ranks.processes import rank_set
from harness.ranks.processes.rank_set import RankSet, send_whole
from harness.wire import framed, recv_frame, send_frame
from suites.selftest.faults.clean import CleanTestCase


class DescriptorsTest(CleanTestCase):
    """The descriptors of a rank set."""

    def test_no_more_descriptors(self) -> None:
        """If descriptors run out, those that were opened are closed again."""
        request = Launch(ModuleRef("harness"), "None", "none", 64, "", {}, "/", [], [])
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for spare in range(3, 20):
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + spare, hard))
            with self.subTest(spare=spare), self.assertRaises(OSError):
                RankSet(request)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class SendWholeTest(unittest.TestCase):
    """``send_whole`` on a non-blocking socket."""

    def setUp(self) -> None:
        self.near, self.far = socket.socketpair()
        self.addCleanup(self.near.close)
        self.addCleanup(self.far.close)
        self.near.setblocking(False)

    def test_more_than_the_socket_takes_at_once(self) -> None:
        """A frame larger than the socket's buffer arrives whole, and so does the next one."""
        large = bytes(4 << 20)
        got: list[bytes | None] = []
        reader = threading.Thread(target=lambda: got.extend(recv_frame(self.far) for _ in range(2)))
        reader.start()
        try:
            send_whole(self.near, framed(large))
            send_whole(self.near, framed(b"next"))
        finally:
            self.near.close()
            reader.join()
        self.assertEqual(got, [large, b"next"])

    def test_the_socket_stays_as_it_was(self) -> None:
        """The socket stays non-blocking, because its reader relies on it."""
        send_whole(self.near, framed(b"word"))
        self.assertEqual(self.near.gettimeout(), 0.0)

    def test_a_peer_that_does_not_read(self) -> None:
        """A peer that does not read causes an OSError after a while and no endless wait."""
        with contextlib.suppress(BlockingIOError):
            while True:
                send_frame(self.near, b"filler")
        with mock.patch.object(rank_set, "SEND_WAIT_S", 0.01), self.assertRaises(OSError):
            send_whole(self.near, framed(b"word"))


if __name__ == "__main__":
    unittest.main()
