"""The stores that process groups meet in: what each keeps, how it waits, what many ranks do to one at once.

Every kind of store passes the same bodies: in one process for what its operations mean, and on four ranks
for what must hold when all of them write at the same time. Ports are the kernel's choice, and reach the
other ranks through a file.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import timedelta
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch.distributed as dist

from harness import MultiProcessTestCase, TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import current

#: For keys that nobody sets. FileStore looks once a second; the others end when they are told to.
SHORT = timedelta(milliseconds=20)
#: For ranks that come: below the harness's deadline for a test, so that the store's own message is seen.
LONG = timedelta(seconds=60)
HOST = "127.0.0.1"
#: More than one read from a socket or a file brings.
LARGE = bytes(range(256)) * (1 << 13)
ODD_KEYS = ("", " ", "a/b", "nul\0inside", "nul", "line\nbreak", "été", "k" * 5000)
ADDS = 50


def hosted(libuv: bool) -> dist.TCPStore:
    """Return the serving end of a TCPStore on a port that is free."""
    return dist.TCPStore(HOST, 0, None, True, wait_for_workers=False, use_libuv=libuv, timeout=LONG)


class StoreOperations:
    """What the operations of a store mean, in one process; ``make`` says which store."""

    #: What an expired wait raises.
    expired = dist.DistStoreError
    #: What ``delete_key`` says of a key that is not there.
    deletes_anything = False

    def setUp(self):
        super().setUp()
        self.store = self.make()

    def timed_out(self):
        """Expect the error of an expired wait."""
        return self.assertRaisesRegex(self.expired, "(?i)timeout")

    def test_set_get_check(self):
        before = self.store.num_keys()
        self.assertFalse(self.store.check(["k0"]))
        self.store.set("k0", "v0")
        self.store.set("k1", b"\x00\xff\n")
        self.store.set("k0", "w0")
        self.assertEqual([self.store.get("k0"), self.store.get("k1")], [b"w0", b"\x00\xff\n"])
        self.assertTrue(self.store.check(["k0", "k1"]))
        self.assertFalse(self.store.check(["k0", "k2"]))
        self.assertEqual(self.store.num_keys() - before, 2)

    def test_add(self):
        self.assertEqual([self.store.add("n", step) for step in (3, -5, 10)], [3, -2, 8])
        self.assertEqual(self.store.get("n"), b"8")
        self.store.set("n", "41")
        self.assertEqual(self.store.add("n", 1), 42)

    def test_compare_set(self):
        self.assertEqual(self.store.compare_set("c", "wrong", "x"), b"wrong")
        self.assertFalse(self.store.check(["c"]))
        self.assertEqual(self.store.compare_set("c", "", "first"), b"first")
        self.assertEqual(self.store.compare_set("c", "wrong", "second"), b"first")
        self.assertEqual(self.store.get("c"), b"first")
        self.assertEqual(self.store.compare_set("c", "first", "second"), b"second")
        self.assertEqual(self.store.get("c"), b"second")

    def test_append(self):
        self.store.append("a", "one ")
        self.store.append("a", "two")
        self.assertEqual(self.store.get("a"), b"one two")

    def test_multi_set_and_multi_get(self):
        self.store.multi_set(["m0", "m1"], ["v0", "v1"])
        self.assertEqual(self.store.multi_get(["m1", "m0"]), [b"v1", b"v0"])
        self.assertEqual(self.store.get("m1"), b"v1")

    def test_delete_key(self):
        self.store.set("gone", "v")
        self.store.set("kept", "v")
        before = self.store.num_keys()
        self.assertTrue(self.store.delete_key("gone"))
        self.assertFalse(self.store.check(["gone"]))
        self.assertTrue(self.store.check(["kept"]))
        self.assertEqual(self.store.num_keys(), before - 1)
        for name in ("gone", "never"):
            self.assertEqual(self.store.delete_key(name), self.deletes_anything, name)
        self.assertEqual(self.store.num_keys(), before - 1)
        with self.timed_out():
            self.store.wait(["gone"], SHORT)

    def test_wait(self):
        self.store.multi_set(["here", "there"], ["", ""])
        self.assertIsNone(self.store.wait(["here", "there"], SHORT))
        with self.timed_out():
            self.store.wait(["here", "nowhere"], SHORT)

    def test_get_times_out(self):
        self.store.set_timeout(SHORT)
        self.assertEqual(self.store.timeout, SHORT)
        with self.timed_out():
            self.store.get("nowhere")
        self.store.set("here", "v")
        self.assertEqual(self.store.get("here"), b"v")

    def test_odd_keys(self):
        for number, key in enumerate(ODD_KEYS):
            self.store.set(key, f"value {number}")
        self.assertEqual(
            [self.store.get(key) for key in ODD_KEYS], [b"value %d" % n for n in range(len(ODD_KEYS))]
        )

    def test_large_and_empty_values(self):
        self.store.set("large", LARGE)
        self.store.set("empty", "")
        self.assertTrue(self.store.get("large") == LARGE)
        self.assertEqual(self.store.get("empty"), b"")
        self.assertTrue(self.store.check(["empty"]))


class HashStoreTest(StoreOperations, TestCase):
    """A store within a process."""

    def make(self):
        return dist.HashStore()


class FileStoreTest(StoreOperations, TestCase):
    """A store in a file."""

    expired = RuntimeError
    deletes_anything = True  # torch's, and in the book

    def make(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = str(Path(directory.name, "store"))
        return dist.FileStore(self.path, 1)

    def test_file_is_shared_and_reused(self):
        self.store.set("k", "v")
        other = dist.FileStore(self.path, -1)
        self.assertEqual(other.get("k"), b"v")
        other.set("k", "w")
        self.assertEqual(self.store.get("k"), b"w")
        self.assertEqual((self.store.path, other.path), (self.path, self.path))

    def test_a_file_serves_one_group_after_another(self):
        # A second group over the file of the first: its keys have the names of the first one's.
        for turn in range(2):
            store = dist.FileStore(self.path, 1)
            dist.init_process_group(current().backend, store=store, rank=0, world_size=1, timeout=LONG)
            self.assertEqual(dist.get_world_size(), 1, turn)
            dist.destroy_process_group()


class TCPStoreTest(StoreOperations, TestCase):
    """A store behind a socket, served by libuv."""

    libuv = True

    def make(self):
        return hosted(self.libuv)

    def test_which_server(self):
        self.assertEqual(self.store.libuvBackend, self.libuv)

    def test_client_sees_the_servers_keys(self):
        client = dist.TCPStore(HOST, self.store.port, None, False, use_libuv=self.libuv, timeout=LONG)
        self.store.set("k", "v")
        self.assertEqual((client.get("k"), client.port, client.host), (b"v", self.store.port, HOST))

    def test_address_already_in_use(self):
        with self.assertRaisesRegex(dist.DistNetworkError, "(?i)EADDRINUSE|address already in use"):
            dist.TCPStore(
                HOST, self.store.port, None, True, wait_for_workers=False, use_libuv=self.libuv, timeout=LONG
            )

    def test_a_worker_that_never_comes(self):
        with self.assertRaisesRegex(dist.DistStoreError, "Timed out after .* 1/2 clients joined"):
            dist.TCPStore(HOST, 0, 2, True, timeout=timedelta(seconds=1), use_libuv=self.libuv)


class LegacyTCPStoreTest(TCPStoreTest):
    """A store behind a socket, served by a thread that polls."""

    libuv = False


class PrefixHashStoreTest(HashStoreTest):
    """A part of a HashStore."""

    def make(self):
        self.whole = dist.HashStore()
        return dist.PrefixStore("part", self.whole)

    def test_prefixes_keep_apart(self):
        other = dist.PrefixStore("other", self.whole)
        self.store.set("k", "mine")
        self.assertFalse(other.check(["k"]))
        other.set("k", "its")
        self.assertEqual([self.store.get("k"), other.get("k")], [b"mine", b"its"])
        self.assertEqual(self.whole.get("part/k"), b"mine")

    def test_underlying_store(self):
        nested = dist.PrefixStore("inner", self.store)
        nested.set("k", "v")
        self.assertEqual(self.whole.get("part/inner/k"), b"v")
        self.assertIs(nested.underlying_store, self.store)
        self.assertIs(nested._underlying_non_prefix_store, self.whole)


class PrefixFileStoreTest(StoreOperations, TestCase):
    """A part of a FileStore."""

    expired = RuntimeError
    deletes_anything = True  # torch's, and in the book

    def make(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return dist.PrefixStore("part", dist.FileStore(str(Path(directory.name, "store")), 1))


class PrefixTCPStoreTest(StoreOperations, TestCase):
    """A part of a TCPStore."""

    def make(self):
        return dist.PrefixStore("part", hosted(True))


class StoreOnRanks:
    """One store, four ranks that use it at once."""

    world_size = 4

    def setUpRank(self):
        super().setUpRank()
        self.store = self.join(dist.FileStore(self.file_name, self.world_size))
        self.together("start")

    def together(self, where):
        """Return when all ranks have come here."""
        self.store.set(f"{where}/{self.rank}", "here")
        self.store.wait([f"{where}/{rank}" for rank in range(self.world_size)], LONG)

    def test_concurrent_adds(self):
        seen = [self.store.add("count", 1) for _ in range(ADDS)]
        self.assertEqual(seen, sorted(set(seen)))
        self.store.set(f"seen/{self.rank}", " ".join(map(str, seen)))
        everything = self.store.multi_get([f"seen/{rank}" for rank in range(self.world_size)])
        self.assertEqual(everything[self.rank].split(), [b"%d" % number for number in seen])
        handed_out = sorted(int(number) for text in everything for number in text.split())
        self.assertEqual(handed_out, list(range(1, ADDS * self.world_size + 1)))

    def test_one_compare_set_wins(self):
        for turn in range(5):
            mine = f"rank {self.rank}"
            winner = self.store.compare_set(f"prize {turn}", "", mine)
            self.store.set(f"saw {turn}/{self.rank}", b"%d: %s" % (self.rank, winner))
            saw = self.store.multi_get([f"saw {turn}/{rank}" for rank in range(self.world_size)])
            self.assertEqual(saw, [b"%d: %s" % (rank, winner) for rank in range(self.world_size)])
            self.assertEqual(self.store.get(f"prize {turn}"), winner)

    def test_wait_ends_when_the_key_comes(self):
        # Each rank waits for the next one's key and sets its own only then; the last one starts it off.
        if self.rank < self.world_size - 1:
            self.store.wait([f"turn/{self.rank + 1}"], LONG)
            self.assertTrue(self.store.check([f"turn/{self.rank + 1}"]))
        self.store.set(f"turn/{self.rank}", str(self.rank * 11))
        self.assertEqual(self.store.get("turn/0"), b"0")
        self.assertEqual(self.store.get(f"turn/{self.world_size - 1}"), b"33")

    def test_large_values_from_all(self):
        self.store.set(f"large/{self.rank}", bytes([self.rank]) * (1 << 18))
        for rank in range(self.world_size):
            self.assertTrue(self.store.get(f"large/{rank}") == bytes([rank]) * (1 << 18), rank)


class FileStoreOnRanksTest(StoreOnRanks, MultiProcessTestCase):
    """A file that four ranks write."""

    def join(self, file):
        return file


class TCPStoreOnRanksTest(StoreOnRanks, MultiProcessTestCase):
    """A server in rank 0, with libuv, and clients in the others."""

    libuv = True

    def join(self, file):
        if self.rank == 0:
            store = hosted(self.libuv)
            file.set("port", str(store.port))
            return store
        port = int(file.get("port"))
        return dist.TCPStore(self.master_addr, port, None, False, use_libuv=self.libuv, timeout=LONG)


class LegacyTCPStoreOnRanksTest(TCPStoreOnRanksTest):
    """The same, with the server that polls."""

    libuv = False


class PrefixStoreOnRanksTest(StoreOnRanks, MultiProcessTestCase):
    """A part of a file that four ranks write."""

    def join(self, file):
        return dist.PrefixStore("part", file)


if __name__ == "__main__":
    run_tests()
