"""Stores between the threads of a process: who waits in one does not hold up those it waits for.

A wait that kept Python's lock would hang here, one that did not wait would find nothing.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch.distributed as dist

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)

#: For keys that come: below the harness's deadline for a test.
LONG = timedelta(seconds=60)
#: For what never comes.
SHORT = timedelta(milliseconds=20)
HOST = "127.0.0.1"
TURNS = 20


def served(libuv: bool) -> dist.TCPStore:
    """Return the serving end of a TCPStore on a port that is free."""
    return dist.TCPStore(HOST, 0, None, True, wait_for_workers=False, use_libuv=libuv, timeout=LONG)


class StoreTestCase(TestCase):
    """Has the kinds of stores."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = str(Path(directory.name, "store"))
        self.threads = ThreadPoolExecutor(2)
        self.addCleanup(self.threads.shutdown)

    def file(self):
        return dist.FileStore(self.path, 1)


class WaitingThreadsTest(StoreTestCase):
    """Two threads that take turns, each waiting for the other's key."""

    def check_turns(self, ours, theirs):
        """Let two threads answer each other; each looks, after a wait, whether the key is there."""

        def player(store, mine, other, starts):
            found = []
            for turn in range(TURNS):
                if starts:
                    store.set(f"{mine}/{turn}", "here")
                store.wait([f"{other}/{turn}"], LONG)
                found.append(store.check([f"{other}/{turn}"]))
                if not starts:
                    store.set(f"{mine}/{turn}", "here")
            return found

        playing = [
            self.threads.submit(player, ours, "a", "b", True),
            self.threads.submit(player, theirs, "b", "a", False),
        ]
        for player_of in playing:
            self.assertEqual(player_of.result(), [True] * TURNS)

    def check_shared(self, store):
        self.check_turns(store, store)

    def test_wait_file_store(self):
        self.check_turns(self.file(), dist.FileStore(self.path, -1))

    def test_wait_hash_store(self):
        self.check_shared(dist.HashStore())

    def test_wait_tcp_store(self):
        for libuv in (True, False):
            with self.subTest(libuv=libuv):
                server = served(libuv)
                client = dist.TCPStore(HOST, server.port, None, False, use_libuv=libuv, timeout=LONG)
                self.check_turns(server, client)

    def test_wait_prefix_file_store(self):
        ours, theirs = (dist.PrefixStore("part", store) for store in (self.file(), self.file()))
        self.check_turns(ours, theirs)

    def test_wait_prefix_tcp_store(self):
        server = served(True)
        client = dist.TCPStore(HOST, server.port, None, False, timeout=LONG)
        self.check_turns(dist.PrefixStore("part", server), dist.PrefixStore("part", client))


class QueueTest(StoreTestCase):
    """What is pushed onto a key's queue comes out in this order, to whoever asks first."""

    def kinds(self):
        """Return two ways each to a store that has queues."""
        server, part = served(True), dist.HashStore()
        client = dist.TCPStore(HOST, server.port, None, False, timeout=LONG)
        return {
            "hash": (part, part),
            "tcp": (server, client),
            "prefix": (dist.PrefixStore("p", part), dist.PrefixStore("p", part)),
        }

    def test_first_in_first_out(self):
        for kind, (ours, theirs) in self.kinds().items():
            with self.subTest(store=kind):
                for value in ("one", b"\x00two", ""):
                    ours.queue_push("q", value)
                ours.queue_push("other", "apart")
                # A push is not answered: another connection may be served before it. This one is in order.
                self.assertEqual((ours.queue_len("q"), ours.queue_len("other")), (3, 1))
                self.assertEqual((theirs.queue_len("q"), theirs.queue_len("none")), (3, 0))
                self.assertEqual([theirs.queue_pop("q") for _ in range(3)], [b"one", b"\x00two", b""])
                self.assertEqual((theirs.queue_len("q"), theirs.queue_len("other")), (0, 1))

    def test_nothing_in_it(self):
        for kind, (ours, theirs) in self.kinds().items():
            with self.subTest(store=kind):
                with self.assertRaises(dist.QueueEmptyError):
                    ours.queue_pop("q", block=False)
                theirs.set_timeout(SHORT)
                with self.assertRaisesRegex(dist.DistStoreError, "(?i)timeout"):
                    theirs.queue_pop("q")

    def test_pop_waits_for_a_push(self):
        for kind, (ours, theirs) in self.kinds().items():
            with self.subTest(store=kind):
                popped = self.threads.submit(lambda ours=ours: [ours.queue_pop("q") for _ in range(TURNS)])
                for turn in range(TURNS):
                    theirs.queue_push("q", str(turn))
                self.assertEqual(popped.result(), [b"%d" % turn for turn in range(TURNS)])

    def test_file_store_has_none(self):
        store = self.file()
        with self.assertRaisesRegex(NotImplementedError, "queue support is not implemented"):
            store.queue_push("q", "v")


if __name__ == "__main__":
    run_tests()
