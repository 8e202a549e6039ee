"""Tests what is recorded of waits: that of a usual call, and all others."""

from __future__ import annotations

import mmap
import unittest
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from harness import MultiProcessTestCase
from harness.communication.call_log import ENTRIES, LOG_BYTES, CallLog
from harness.communication.record.arguments import Arguments
from harness.communication.record.chaos import Chaos
from harness.communication.record.recorder import Recorder, key_and_arguments
from harness.communication.taps import taps
from harness.communication.taps.tap_state import Taps
from harness.communication.taps.work_taps import waiting
from harness.communication_call import Call
from suites.selftest.communication.record.test_recorder import Group, Work

ONE = torch.ones(1)


class WaitingTest(unittest.TestCase):
    """The ``wait`` of a handle that stands for a call in the log."""

    def setUp(self) -> None:
        self.taps = Taps()
        self.taps.recorder = self.recorder = Recorder(CallLog(mmap.mmap(-1, LOG_BYTES)), lambda group: (0, 1))
        self.group, self.work, self.given = Group(), Work(), list[tuple[Any, ...]]()
        self.meanwhile: Callable[[], object] = lambda: None

        def original(work: Work, *args: Any, **kwargs: Any) -> str:
            self.given.append((work, args, kwargs))
            self.meanwhile()
            return "over"

        self.wait: Any = waiting(original, self.taps)

    def begin(self, *, own_work: bool = False) -> Call:
        """Begins a call, whose handle is ``work``; returns it as it stands in the log then."""
        self.begin_unseen(own_work=own_work)
        return self.last()

    def begin_unseen(self, *, own_work: bool = False) -> None:
        """The same without a look at the log, of which all is read."""
        key, arguments = key_and_arguments("all_reduce", Arguments((ONE,)))
        token = self.recorder.began(self.group, "all_reduce", key, arguments, own_work=own_work)
        self.recorder.returned(token, self.work, own_work)

    def last(self) -> Call:
        """The last call in the log."""
        (call,) = self.recorder.log.last(1)
        return call

    def test_usual(self) -> None:
        """The call that the rank has waited for since it began is over."""
        before = self.begin()
        self.meanwhile = lambda: self.assertEqual(self.last(), before)
        self.assertEqual(self.wait(self.work), "over")
        after = self.last()
        self.assertEqual((after.waiting_s, after.raised), (before.started_s, False))
        self.assertGreater(after.ended_s or 0, before.started_s)
        self.assertEqual((self.given, self.recorder.open), ([(self.work, (), {})], {}))

    def test_own_work(self) -> None:
        """The rank waits for a call only from now on, if that was asynchronous."""
        before = self.begin(own_work=True)
        self.assertIsNone(before.waiting_s)
        self.meanwhile = lambda: self.assertIsNotNone(self.last().waiting_s)
        self.wait(self.work)
        self.assertIsNotNone(self.last().ended_s)

    def test_raises(self) -> None:
        """The call has ended by an exception, which the caller gets, be it usual or asynchronous."""
        for own_work in (False, True):
            with self.subTest(own_work=own_work):
                self.begin(own_work=own_work)
                self.meanwhile = lambda: [][0]
                with self.assertRaises(IndexError):
                    self.wait(self.work)
                self.assertEqual((self.last().raised, self.last().ended_s is None), (True, False))

    def test_dropped(self) -> None:
        """Where the ring has dropped the call, that one is not ended which stands in its place."""
        self.begin()
        work, self.work = self.work, Work()
        for _ in range(ENTRIES):
            self.begin_unseen()
        self.wait(work)
        self.assertIsNone(self.last().ended_s)

    def test_given(self) -> None:
        """What a wait is given reaches torch: a timeout, by position or by name."""
        limit = timedelta(seconds=1)
        for args, kwargs in (((limit,), {}), ((), {"timeout": limit})):
            self.begin()
            self.meanwhile = lambda: self.assertTrue(self.last().bounded)
            self.wait(self.work, *args, **kwargs)
            self.assertEqual(self.given.pop(), (self.work, args, kwargs))

    def test_others_are_told(self) -> None:
        """Whoever checks values or delays the rank hears of a usual wait, too."""
        self.begin()
        with mock.patch.object(self.taps, "values") as values:
            self.wait(self.work)
        values.waited.assert_called_once_with(self.work)
        self.begin()
        self.taps.chaos = Chaos(1, 0)
        with mock.patch.object(self.recorder, "waited") as waited:
            self.wait(self.work)
        waited.assert_called_once_with(self.work)

    def test_without_a_recorder(self) -> None:
        """Torch's method alone is called."""
        self.taps.recorder = None
        self.assertEqual(self.wait(self.work, 1, timeout=2), "over")
        self.assertEqual(self.given, [(self.work, (1,), {"timeout": 2})])


class TimeoutsTest(MultiProcessTestCase):
    """A wait with a timeout that passes."""

    world_size = 2

    def test_the_call_goes_on(self) -> None:
        """It is neither over nor waited for, until the rank waits for it again."""
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)
        found = taps.prepare()
        assert found is not None and found.recorder is not None
        if self.rank == 1:
            store.get("come")
        work = dist.all_reduce(ONE.clone(), async_op=True)
        if self.rank == 0:
            with self.assertRaisesRegex(RuntimeError, "timed out"):
                work.wait(timedelta(milliseconds=20))
            (call,) = found.recorder.log.last(1)
            self.assertEqual((call.waits, call.bounded, call.ended_s), (False, False, None))
            store.set("come", "now")
        work.wait()
        calls = [call for call in found.recorder.log.last(9) if call.signature.operation == "all_reduce"]
        self.assertEqual([call.ended_s is not None for call in calls], [True])


if __name__ == "__main__":
    unittest.main()
