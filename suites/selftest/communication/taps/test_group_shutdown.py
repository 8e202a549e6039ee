"""Tests that no rank leaves a group while another one still connects to it, whoever destroys the group.

What made it fail: a rank was connected to all its peers, its test was over, and one of them still connected.
"""

from __future__ import annotations

import contextlib
import queue
import tempfile
import threading
import unittest
import weakref
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from unittest import mock

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from harness.cases.dynamo import DynamoDistributedMultiProcTestCase, _dynamo_dist_per_rank_init
from harness.communication.taps import group_shutdown
from harness.communication.taps.tap_state import Taps
from suites.selftest.cases import dtensor_bodies


class Held:
    """Holds rank 1 back in the making of each group until rank 0 waits for it, or has left before it.

    ``first`` says which of the two rank 0 did, for each group of rank 1.
    """

    def __init__(self, board: dist.Store) -> None:
        self.board = board
        self.made = [0, 0]  # the number of each rank's groups
        self.last: list[Any] = [lambda: None, lambda: None]  # the last one, which nothing else may keep
        self.first: list[bytes] = []

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """A region in which ranks make groups, and destroy them or leave that to the harness."""
        group: Any = dist.ProcessGroup
        with (
            mock.patch.object(group, "_register_backend", self._late(group._register_backend)),
            mock.patch.object(group, "shutdown", self._left(group.shutdown)),
            mock.patch.object(dist.PrefixStore, "wait", self._seen(dist.PrefixStore.wait)),
        ):
            yield

    def _late(self, register: Any) -> Any:
        def late(group: Any, *args: Any) -> None:
            rank = group.rank()
            register(group, *args)
            if self.last[rank]() is group:  # for another kind of device
                return
            self.last[rank] = weakref.ref(group)
            self.made[rank] += 1
            if rank == 1:
                self.first.append(self.board.get(f"group {self.made[rank]}"))

        return late

    def _seen(self, wait: Any) -> Any:
        def seen(*args: Any) -> None:
            self._say("waits")
            wait(*args)

        return seen

    def _left(self, shutdown: Any) -> Any:
        def left(group: Any) -> None:
            shutdown(group)
            if group.rank() == 0:
                self._say("left")

        return left

    def _say(self, what: str) -> None:
        self.board.compare_set(f"group {self.made[0]}", "", what)


class LeavesTest(DynamoDistributedMultiProcTestCase):
    """Groups that no collective uses, on fresh ranks."""

    world_size = 2
    rank_modes: tuple[str, ...] = ("fresh",)

    def setUpRank(self) -> None:
        super().setUpRank()
        self.held = Held(dist.FileStore(f"{self.file_name}.board", 2))

    def check(self, groups: int) -> None:
        """Checks that rank 0 waited in each group for rank 1 to come out of making it."""
        self.assertEqual(self.held.first, [b"waits"] * groups if self.rank == 1 else [])

    def test_group_of_the_harness(self) -> None:
        """The harness destroys a group that it made for the test."""
        with self.held():
            for _ in range(2):
                with _dynamo_dist_per_rank_init(self.rank, 2):
                    pass
        self.check(2)

    def test_group_of_the_test(self) -> None:
        """The test makes a group and one beside it, and destroys them."""
        store = dist.FileStore(self.file_name, 2)
        with self.held():
            dist.init_process_group("gloo", store=store, rank=self.rank, world_size=2)
            dist.destroy_process_group()
        self.check(1)


class PooledLeavesTest(LeavesTest):
    """The same on pooled ranks."""

    rank_modes = ("pooled",)


class ThreadsTest(unittest.TestCase):
    """Groups of threads, of which one that fails or skips closes its connections itself."""

    def test_skip(self) -> None:
        """All ranks skip, and none of them sees a closed connection."""
        held = Held(dist.HashStore())
        with held():
            result, _ = dtensor_bodies.play(dtensor_bodies.SkipsOnThreads, "test_skips")
        self.assertEqual(held.first, [b"waits"])
        self.assertEqual([reason for _, reason in result.skipped], ["not today"])


class UnitTest(unittest.TestCase):
    """``noting`` and ``awaiting`` by themselves."""

    def setUp(self) -> None:
        self.taps = Taps()
        self.taps.recorder = self.recorder = mock.Mock()
        self.store: dist.Store = dist.HashStore()

    def group(self, rank: int, size: int = 2) -> Any:
        """A group without backends, out of whose making the rank has come."""
        store = dist.PrefixStore("0/", self.store)
        group = dist.ProcessGroup(store, rank, size)
        made = group_shutdown.noting(lambda: (group, store), self.taps)()
        self.assertEqual(made, (group, store))
        c10d._world.pg_map[group] = ("gloo", store)
        self.addCleanup(c10d._world.pg_map.pop, group)
        return group

    def test_waits_for_the_last(self) -> None:
        """A group is shut down when the last member has come out of making it, and not before."""
        seen: queue.SimpleQueue[str] = queue.SimpleQueue()
        wait: Any = dist.PrefixStore.wait

        def waits(*args: Any) -> None:
            seen.put("waits")
            wait(*args)

        first = self.group(0)
        shutdown = group_shutdown.awaiting(lambda group: seen.put("left"), self.taps)
        thread = threading.Thread(target=shutdown, args=(first,))
        with mock.patch.object(dist.PrefixStore, "wait", waits):
            thread.start()
            self.assertEqual(seen.get(), "waits")
            self.group(1)
            thread.join()
        self.assertEqual(seen.get(), "left")

    def test_does_not_wait(self) -> None:
        """Where nobody is to be waited for, or nothing can be known."""
        alone, both, lost = self.group(0, 1), self.group(0), self.group(0, 3)
        self.group(1)
        left: list[Any] = []
        shutdown = group_shutdown.awaiting(left.append, self.taps)
        with mock.patch.object(dist.PrefixStore, "wait", side_effect=AssertionError("waits")):
            shutdown(alone)
            shutdown(both)
            dist.PrefixStore("0/", self.store).delete_key(f"{group_shutdown.CAME_OUT}0")
            shutdown(lost)
            shutdown(mock.sentinel.unknown)
            self.taps.recorder = None
            shutdown(self.group(1, 3))
        self.assertEqual(len(left), 5)

    def test_a_file_that_is_gone(self) -> None:
        """torch would look for it until the store's timeout, which is five minutes."""
        with tempfile.TemporaryDirectory() as directory:
            self.store = dist.FileStore(f"{directory}/store", 2)
            group, left = self.group(0), list[Any]()
        with mock.patch.object(dist.PrefixStore, "check", side_effect=AssertionError("looks for it")):
            group_shutdown.awaiting(left.append, self.taps)(group)
        self.assertEqual(left, [group])

    def test_a_member_that_never_comes(self) -> None:
        """The group is shut down in the end."""
        group, left = self.group(0), list[Any]()
        with mock.patch.object(group_shutdown, "MOST", timedelta(milliseconds=1)):
            group_shutdown.awaiting(left.append, self.taps)(group)
        self.assertEqual(left, [group])

    def test_a_store_of_the_test(self) -> None:
        """Nothing is noted in a store that is written in Python."""

        class Own(dist.Store):  # type: ignore[misc]  # torch is not followed
            """Has no methods."""

        store = Own()
        group_shutdown.noting(lambda: (dist.ProcessGroup(store, 0, 2), store), self.taps)()


if __name__ == "__main__":
    unittest.main()
