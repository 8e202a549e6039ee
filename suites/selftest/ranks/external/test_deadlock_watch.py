"""Tests the watch over external ranks, on a store that all of them share."""

from __future__ import annotations

import threading
import time
import unittest
import unittest.mock
from dataclasses import replace

import torch.distributed as dist

from harness.communication.analysis.wait_graph import SERVING
from harness.communication.call_log import Head
from harness.communication_call import Call, Kind, Signature
from harness.ranks.external.deadlock_watch import ExternalDeadlockWatch, calls_when_stuck
from harness.system import posix

BARRIER = Signature("barrier", "0", members=(0, 1, 2), default=True)


def waits(**fields: object) -> Call:
    """A barrier for which a rank waits since now."""
    now = time.monotonic()
    return Call(BARRIER, 1, 1, now, now, **fields)  # type: ignore[arg-type]  # fields of Call


class WatchTest(unittest.TestCase):
    """``ExternalDeadlockWatch`` of three ranks, of which rank 2 is done."""

    def setUp(self) -> None:
        self.store = store = dist.HashStore()
        self.until_s = time.monotonic() + 60.0
        self.watches = [ExternalDeadlockWatch(store, "t", rank, self.until_s) for rank in range(3)]
        asleep = unittest.mock.patch.object(posix, "could_run", return_value=False)
        self.could_run = asleep.start()
        self.addCleanup(asleep.stop)

    def look(
        self, *calls: Call, changes: int = 1, done: tuple[Call, ...] = (), all_of_them: bool = False
    ) -> tuple[int, ...]:
        """One look of each process; what rank 1 hears then. ``done`` are the calls of rank 2."""
        for rank, call in enumerate(calls):
            self.watches[rank].tell(Head(changes, changes), [call])
        self.watches[0].judge([0, 1], {2: done}, all_of_them=all_of_them)
        return self.watches[1].deadlocked(1)

    def test_stuck(self) -> None:
        """All hear of ranks that wait for one that is done, once two looks prove it."""
        call = waits()
        heard = [self.look(call, call) for _ in range(5)]
        self.assertEqual(heard[0], ())
        self.assertEqual(heard[-1], (0, 1))
        self.assertEqual(self.watches[2].deadlocked(1), (0, 1))
        self.assertEqual(self.watches[2].deadlocked(0), (), "it does not know the outcome of rank 2 yet")

    def test_calls_when_stuck(self) -> None:
        """They are those of the proof, also where the rank has moved since, and none of other ranks."""
        call = waits()
        self.assertIsNone(calls_when_stuck(self.store, "t", 0))
        for _ in range(5):
            self.look(call, call)
        self.look(call, call, changes=2)
        for rank, expected in ((0, [1]), (1, [1]), (2, None)):
            found = calls_when_stuck(self.store, "t", rank)
            self.assertEqual(found if found is None else [each.number for each in found], expected)

    def test_all_of_them(self) -> None:
        """After a failure or a skip ranks are ended only where none of those that run can go on."""
        call, members = waits(), (0, 1, 2)
        message = replace(call, signature=Signature("recv", "0", Kind.RECEIVE, members, peer=2, default=True))
        for alone, calls, heard in (
            *((True, (call, call), (0, 1)), (True, (message,), (0,))),
            *((False, (message,), ()), (False, (call, call), (0, 1))),
        ):
            with self.subTest(alone=alone, calls=len(calls)):
                self.setUp()
                said = [self.look(*calls, all_of_them=not alone) for _ in range(5)]
                self.assertEqual(said[-1], heard)

    def test_movement(self) -> None:
        """Ranks that move are not stuck."""
        for changes in range(6):
            self.assertEqual(self.look(waits(), waits(), changes=changes), ())

    def test_awake(self) -> None:
        """Nor are ranks of which a thread runs."""
        self.could_run.return_value = True
        call = waits()
        self.assertEqual([self.look(call, call) for _ in range(5)][-1], ())

    def test_own_timeout(self) -> None:
        """A call that gives up before the deadline is no proof, by the clock of its own host."""
        short = replace(waits(), signature=replace(BARRIER, timeout_s=5.0))
        self.assertEqual([self.look(short, short) for _ in range(5)][-1], ())

    def test_waits_for_a_moving_rank(self) -> None:
        """A rank that tells nothing of a wait may still come."""
        call = waits()
        self.assertEqual([self.look(call, done=(call,)) for _ in range(5)][-1], ())

    def test_own_thread(self) -> None:
        """The thread that looks runs, and is left out."""
        self.look(waits(), waits())
        self.could_run.assert_called_with("self", without=threading.get_native_id(), serving=SERVING)


if __name__ == "__main__":
    unittest.main()
