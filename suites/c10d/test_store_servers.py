"""How stores come and go: files and their last users, servers and who shares them, hosts that do not answer.

What the operations of a store mean is in ``test_stores``. Every port here is one that the kernel has chosen
and that a socket of the test holds.
"""

from __future__ import annotations

import socket
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch.distributed as dist

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)

#: Below the harness's deadline for a test.
LONG = timedelta(seconds=60)
#: For hosts that never answer.
PATIENCE = timedelta(milliseconds=300)
#: How long to wait for what cannot happen; seconds.
SHORT_S = 0.1
HOST = "127.0.0.1"


class FileLifeTest(TestCase):
    """The file of a FileStore."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name, "store")

    def test_refcount(self):
        # As many users as were announced: the last of them takes the file along.
        users = [dist.FileStore(str(self.path), 2) for _ in range(2)]
        users[0].set("k", "v")
        self.assertEqual(users[1].get("k"), b"v")
        del users[0]
        self.assertTrue(self.path.exists())
        self.assertEqual(users[0].get("k"), b"v")
        users.clear()
        self.assertFalse(self.path.exists())

    def test_file_of_an_open_number_of_users_stays(self):
        store = dist.FileStore(str(self.path), -1)
        store.set("k", "v")
        del store
        self.assertTrue(self.path.exists())
        self.assertEqual(dist.FileStore(str(self.path), -1).get("k"), b"v")


class TCPServerTest(TestCase):
    """Servers that libuv serves."""

    libuv = True

    def store(self, port=0, *, world_size=None, serves=True, **options):
        options = {"wait_for_workers": False, "timeout": LONG, **options}
        return dist.TCPStore(HOST, port, world_size, serves, use_libuv=self.libuv, **options)

    def test_multitenancy(self):
        # Stores of one process on one port have one server; it lives as long as any of them.
        first = self.store(multi_tenant=True)
        second = self.store(first.port, multi_tenant=True)
        self.assertEqual(second.port, first.port)
        first.set("k", "v")
        self.assertEqual(second.get("k"), b"v")
        port = first.port
        del first
        second.set("k", "w")
        self.assertEqual(self.store(port, serves=False).get("k"), b"w")

    def test_socket_that_listens_already(self):
        listening = socket.create_server((HOST, 0))
        port = listening.getsockname()[1]
        store = self.store(port, master_listen_fd=listening.detach())
        self.assertEqual(store.port, port)
        store.set("k", "v")
        self.assertEqual(self.store(port, serves=False).get("k"), b"v")

    def test_socket_of_another_port(self):
        listening, other = socket.create_server((HOST, 0)), socket.create_server((HOST, 0))
        self.addCleanup(other.close)
        with self.assertRaisesRegex(RuntimeError, r"is bound to port \d+, expected"):
            self.store(other.getsockname()[1], master_listen_fd=listening.detach())

    def test_fixed_world_size(self):
        # The server is there when all have come: it is a client of its own, and there are two others.
        listening = socket.create_server((HOST, 0))
        port = listening.getsockname()[1]
        counted = {"world_size": 3, "wait_for_workers": True}
        with ThreadPoolExecutor(1) as thread:
            server = thread.submit(self.store, port, master_listen_fd=listening.detach(), **counted)
            early = self.store(port, serves=False, **counted)
            done, _ = wait([server], SHORT_S)
            late = self.store(port, serves=False, **counted)
            self.assertEqual(done, set())
            late.set("k", "v")
            self.assertEqual([store.get("k") for store in (early, server.result())], [b"v", b"v"])

    def test_open_world_size(self):
        # Clients come and go as they like, and the server counts the keys of all.
        server = self.store()
        before = server.num_keys()
        for number in range(3):
            self.store(server.port, serves=False).set(f"from {number}", str(number))
            server.wait([f"from {number}"])  # no set is answered, and other connections may be served before
        self.assertEqual(server.num_keys() - before, 3)
        self.assertEqual(server.multi_get([f"from {number}" for number in range(3)]), [b"0", b"1", b"2"])
        self.assertTrue(server.delete_key("from 1"))
        self.assertEqual(server.num_keys() - before, 2)

    def test_nobody_listens(self):
        with socket.socket() as bound:  # to a port that is nobody else's, and without listening there
            bound.bind((HOST, 0))
            port = bound.getsockname()[1]
            with self.assertRaisesRegex(dist.DistNetworkError, rf"timed out .*\({HOST}, {port}\)"):
                self.store(port, serves=False, timeout=PATIENCE)

    def test_host_without_an_address(self):
        # No resolver knows names in this domain (RFC 2606).
        with self.assertRaisesRegex(dist.DistNetworkError, r"timed out .*\(no\.such\.host\.invalid, 1\)"):
            dist.TCPStore("no.such.host.invalid", 1, None, False, timeout=PATIENCE, use_libuv=self.libuv)


class LegacyTCPServerTest(TCPServerTest):
    """Servers that a polling thread serves."""

    libuv = False


if __name__ == "__main__":
    run_tests()
