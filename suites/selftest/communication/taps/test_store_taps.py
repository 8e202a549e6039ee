"""Tests what is recorded of stores: prefixes, barriers, and for what the making of a ``TCPStore`` waits."""

from __future__ import annotations

import socket
import unittest
from datetime import timedelta
from typing import Any
from unittest import mock

import torch.distributed as dist

from harness.communication.taps.store_taps import Connection, connection_of, store_wrappers
from harness.communication.taps.tap_state import Taps
from harness.communication_call import Kind


class ConnectionTest(unittest.TestCase):
    """``connection_of``: the arguments of a ``TCPStore``."""

    def test_table(self) -> None:
        """Each row: the arguments, and what is read of them."""
        minute, here = timedelta(seconds=60), "localhost:5"
        rows: tuple[tuple[tuple[Any, ...], dict[str, Any], Connection], ...] = (
            (("127.0.0.1", 5), {}, Connection(here, False, 0, 300.0, True)),
            ((socket.gethostname(), 5, 2, False, minute), {}, Connection(here, False, 0, 60.0, True)),
            (("far", 5, 2), {}, Connection("far:5", False, 0, 300.0, False)),
            (("localhost", 5, 3, True), {}, Connection(here, True, 3, 300.0, True)),
            (("localhost", 5), {"world_size": 3, "is_master": True}, Connection(here, True, 3, 300.0, True)),
            (("localhost", 5, 3, True, minute, False), {}, Connection(here, True, 0, 60.0, True)),
            (("localhost", 5, 1, True), {}, Connection(here, True, 0, 300.0, True)),
            (("localhost", 5, None, True), {}, Connection(here, True, 0, 300.0, True)),
            (
                ("localhost", 5),
                {"world_size": 3, "use_libuv": False, "timeout": minute},
                Connection(here, False, 0, 60.0, True),
            ),
        )
        for args, kwargs, expected in rows:
            with self.subTest(args=args, kwargs=kwargs):
                self.assertEqual(connection_of(*args, **kwargs), expected)


class Notes:
    """Stands for a recorder: what stores are used for, each as a tuple."""

    def __init__(self) -> None:
        self.uses: list[tuple[object, ...]] = []
        self.ends = 0

    def uses_store(
        self, operation: str, key: str, kind: Kind, timeout_s: float | None, prefix: str = "", **more: object
    ) -> int:
        """Notes a use."""
        told = {name: value for name, value in more.items() if value}
        self.uses.append((operation, prefix + key, kind, timeout_s, *told.items()))
        return len(self.uses)

    def ended(self, token: int) -> None:
        """Counts the ends of what was noted."""
        self.ends += token > 0


class RecordedTest(unittest.TestCase):
    """What wrapped stores record, in this process: the wrappers are called as the methods would be."""

    def setUp(self) -> None:
        """Wraps torch's functions without putting the wrappers in their place."""
        self.notes, taps = Notes(), Taps()
        taps.recorder = self.notes  # type: ignore[assignment]  # all of a recorder that stores call
        self.call = {(owner, name): wrapper for owner, name, wrapper in store_wrappers(dist, taps)}

    def test_store_of_python(self) -> None:
        """A store of Python that leaves a method out has torch's error in a call of it, as unwrapped."""

        class Partial(dist.Store):  # type: ignore[misc]  # torch has no types for it
            """Has no method of its own."""

        for name, given in (("append", ("key", "value")), ("multi_get", (["key"],))):
            with (
                self.subTest(name),
                mock.patch.object(dist.Store, name, self.call[dist.Store, name]),
                self.assertRaisesRegex(RuntimeError, "Not implemented"),
            ):
                getattr(Partial(), name)(*given)

    def test_prefixes(self) -> None:
        """A key has the prefixes of the stores around it, from the outermost in."""
        inner, outer = (dist.PrefixStore.__new__(dist.PrefixStore) for _ in range(2))
        self.call[dist.PrefixStore, "__init__"](inner, "a", dist.HashStore())
        self.call[dist.PrefixStore, "__init__"](outer, "b", inner)
        for store in (inner, outer):
            self.call[dist.Store, "set"](store, "key", "value")
        self.assertEqual(
            [use[:3] for use in self.notes.uses],
            [
                ("store.set", "a/key", Kind.SETTING),
                ("store.set", "a/b/key", Kind.SETTING),
            ],
        )
        self.assertEqual(outer.get("key"), b"value")

    def test_waits(self) -> None:
        """Waits have their timeouts: the store's, or their own; a barrier has the number of its callers."""
        store = dist.HashStore()
        store.set_timeout(timedelta(seconds=7))
        for key in ("one", "two"):
            store.set(key, "here")
        self.call[dist.Store, "get"](store, "one")
        self.call[dist.Store, "wait"](store, ["one", "two"], timedelta(seconds=3))
        self.call[dist.Store, "multi_get"](store, ["one", "two"])
        uses: list[tuple[object, ...]] = [
            ("store.get", "one", Kind.STORE, 7.0),
            ("store.wait", "one, two", Kind.STORE, 3.0),
            ("store.multi_get", "one, two", Kind.STORE, 7.0),
        ]
        if (dist.Store, "barrier") in self.call:  # not in torch 2.11
            self.call[dist.Store, "barrier"](store, "all", 1)
            uses.append(("store.barrier", "all", Kind.STORE, 7.0, ("workers", 1)))
        self.assertEqual(self.notes.uses, uses)
        self.assertEqual(self.notes.ends, len(uses))

    def test_servers(self) -> None:
        """A server is known before its workers come, and by its port; a client waits for it."""
        make = self.call[dist.TCPStore, "__init__"]
        server, client = (dist.TCPStore.__new__(dist.TCPStore) for _ in range(2))
        make(server, "localhost", 0, None, True)
        make(client, "localhost", server.port, 2, False, timedelta(seconds=9))
        self.assertEqual(
            self.notes.uses,
            [
                ("TCPStore", "localhost:0", Kind.SETTING, None),
                ("TCPStore", f"localhost:{server.port}", Kind.SETTING, None),
                ("TCPStore", f"localhost:{server.port}", Kind.STORE, 9.0),
            ],
        )
        self.assertEqual(self.notes.ends, 3)

    def test_wrong_arguments(self) -> None:
        """torch says what is wrong with arguments, and nothing is recorded."""
        with self.assertRaises(TypeError):
            self.call[dist.TCPStore, "__init__"](dist.TCPStore.__new__(dist.TCPStore))
        self.assertEqual(self.notes.uses, [])


if __name__ == "__main__":
    unittest.main()
