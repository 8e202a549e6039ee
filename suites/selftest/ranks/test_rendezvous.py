"""Tests where ranks meet: at their file on one host, at a store where they are on several."""

from __future__ import annotations

import os
import tempfile
import unittest
from unittest import mock

from torch.distributed import FileStore, PrefixStore, TCPStore

from harness.errors import LaunchError
from harness.ranks import rendezvous


class RendezvousTest(unittest.TestCase):
    """``store`` and ``shared_file``."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.file = os.path.join(directory.name, "file")
        ours = ("HARNESS_STORE", "HARNESS_HOST_ADDR")
        without = {name: value for name, value in os.environ.items() if name not in ours}
        patch = mock.patch.dict(os.environ, without, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def test_one_host(self) -> None:
        """On one host the store is the file, and tests may use it themselves."""
        self.assertFalse(rendezvous.over_hosts())
        self.assertIsInstance(rendezvous.store(self.file, 1), FileStore)
        self.assertEqual(rendezvous.shared_file(self.file), self.file)

    def test_several_hosts(self) -> None:
        """On several hosts those meet that name the same file, at a store that many tests share."""
        server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.environ["HARNESS_STORE"] = f"127.0.0.1:{server.port}"
        self.assertTrue(rendezvous.over_hosts())
        one, two = (rendezvous.store(self.file, 2) for _ in range(2))
        other = rendezvous.store(f"{self.file}.2", 2)
        self.assertIsInstance(one, PrefixStore)
        one.set("key", "value")
        self.assertEqual(two.get("key"), b"value")
        self.assertFalse(other.check(["key"]))
        self.assertFalse(os.path.exists(self.file))

    def test_addresses(self) -> None:
        """What rank 0 serves, and what each rank serves, is found at the addresses of their hosts."""
        self.assertEqual((rendezvous.master_addr(), rendezvous.host_addr()), ("127.0.0.1", "127.0.0.1"))
        os.environ |= {"HARNESS_STORE": "10.0.0.1:5", "HARNESS_HOST_ADDR": "10.0.0.2"}
        self.assertEqual((rendezvous.master_addr(), rendezvous.host_addr()), ("10.0.0.1", "10.0.0.2"))

    def test_file_that_is_not_shared(self) -> None:
        """Who insists on a file gets it where hosts share it, and a clear error where they do not."""
        os.environ["HARNESS_STORE"] = "127.0.0.1:5"
        self.assertEqual(rendezvous.shared_file(self.file), self.file)
        os.environ["HARNESS_NO_SHARED_FILE"] = "/tmp is not shared: set TMPDIR"
        with self.assertRaisesRegex(LaunchError, "set TMPDIR"):
            rendezvous.shared_file(self.file)


if __name__ == "__main__":
    unittest.main()
