"""Tests the parent's side of the messages between a parent and the server of its ranks."""

from __future__ import annotations

import contextlib
import socket
import threading
import unittest
from unittest import mock

from harness.ranks.processes import rank_set
from harness.ranks.processes.rank_set import send_whole
from harness.ranks.second_attempt import time_for_another
from harness.wire import framed, recv_frame, send_frame


class TimeForAnotherTest(unittest.TestCase):
    """The time that is left for a second attempt at a test."""

    def test_table(self) -> None:
        """A second attempt ends within the first one's deadline, or is not made at all."""
        for timeout_s, elapsed_s, left_s in (
            (60.0, 1.0, 59.0),
            (60.0, 30.0, 30.0),
            (60.0, 31.0, None),
            (2.0, 2.1, None),
        ):
            with self.subTest(timeout_s=timeout_s, elapsed_s=elapsed_s):
                self.assertEqual(time_for_another(timeout_s, elapsed_s), left_s)


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
