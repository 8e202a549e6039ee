"""Tests that a chosen port is rank 0's to listen on and nobody else's to get."""

from __future__ import annotations

import datetime
import socket
import unittest

from torch.distributed import TCPStore

from harness.errors import UsageError
from harness.run.master_port import MasterPort

# Seconds; the store answers at once.
PATIENCE = datetime.timedelta(seconds=60)


class MasterPortTest(unittest.TestCase):
    """Ports that are kept, and other sockets."""

    def test_store(self) -> None:
        """torch's store can be made on a port that is kept, more than once, by both of its servers."""
        for libuv in (True, False):
            with self.subTest(libuv=libuv), MasterPort() as port:
                for _ in range(2):
                    store = TCPStore("127.0.0.1", port.number, 1, True, PATIENCE, use_libuv=libuv)
                    store.set("key", "value")
                    self.assertEqual(store.get("key"), b"value")
                    del store

    def test_kept(self) -> None:
        """No other socket gets the port: not by asking for it, and not by asking for any."""
        with MasterPort() as port, MasterPort() as other, socket.socket() as stranger:
            self.assertNotEqual(port.number, other.number)
            with self.assertRaises(OSError):
                stranger.bind(("127.0.0.1", port.number))

    def test_given_back(self) -> None:
        """The port is free again afterwards."""
        with MasterPort() as port:
            number = port.number
        with socket.socket() as stranger:
            stranger.bind(("127.0.0.1", number))

    def test_wanted(self) -> None:
        """A port can be asked for, unless somebody listens on it."""
        with MasterPort() as free:
            number = free.number
        with MasterPort(number) as port:
            self.assertEqual(port.number, number)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            number = taken.getsockname()[1]
            with self.assertRaisesRegex(UsageError, f"port {number} cannot be used"):
                MasterPort(number)


if __name__ == "__main__":
    unittest.main()
