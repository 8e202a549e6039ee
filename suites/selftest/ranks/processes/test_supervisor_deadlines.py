"""Tests what the supervisor makes of ranks that go on when their time is over."""

from __future__ import annotations

import functools
import itertools
import signal
import unittest
from dataclasses import replace
from unittest import mock

from harness.communication import call_log
from harness.communication_call import Signature
from harness.outcomes import Status
from harness.rank_merging import merge
from harness.ranks.deadlines import Limits
from harness.system.signals import RANK_STACKS
from suites.selftest.ranks.processes.supervised import (
    FAILURE,
    FIRST_LOOK,
    SHORT,
    SupervisorCase,
)


class DeadlineTest(SupervisorCase):
    """Deadlines and graces, and what comes after them."""

    def test_report_after_the_deadline(self) -> None:
        """Whatever a rank reports when its stack is asked for, it has timed out; a note has what it said."""
        for status, error, said in (
            (Status.PASSED, None, "passed"),
            (Status.SKIPPED, None, "skipped"),
            (Status.FAILED, FAILURE, "AssertionError: no"),
        ):
            with self.subTest(status=status):
                self.ranks.on[0, RANK_STACKS] = functools.partial(self.ranks.says, 0, status, error=error)
                self.dies_of(0, signal.SIGTERM)
                self.dies_of(1, signal.SIGTERM)
                watched = self.watch()
                self.assertEqual(self.statuses(watched), [Status.TIMED_OUT] * 2)
                self.assertEqual(watched.outcomes[0].note, f"its report came too late: {said}")
            self.doCleanups()
            self.setUp()

    def test_collective_after_the_deadline(self) -> None:
        """What a rank calls when the request for its stack wakes it is not what it was in at the deadline."""
        books = [self.log(rank) for rank in range(len(self.ranks.links))]
        for book in books:
            book.end(book.begin(book.text(Signature("barrier", "0")), 0, 1))
        books[0].begin(books[0].text(Signature("all_reduce", "0")), 0, 2)

        def go_on() -> None:
            books[1].begin(books[1].text(Signature("all_reduce", "0")), 0, 2)

        self.ranks.on[1, RANK_STACKS] = go_on
        for rank in (0, 1):
            self.dies_of(rank, signal.SIGTERM)
        watched = self.watch()
        self.assertIsNone(watched.outcomes[1].under_way)
        self.assertEqual(merge(watched.outcomes).root_cause, 1)

    def test_first_collective_after_the_deadline(self) -> None:
        """The same of a rank that had called nothing until then."""
        self.calls(0, Signature("all_reduce", "0"))
        self.ranks.on[1, RANK_STACKS] = lambda: self.calls(1, Signature("all_reduce", "0"))
        for rank in (0, 1):
            self.dies_of(rank, signal.SIGTERM)
        watched = self.watch()
        self.assertEqual(watched.outcomes[1].calls, ())
        self.assertEqual(merge(watched.outcomes).root_cause, 1)

    def test_report_after_sigterm(self) -> None:
        """A rank that handles SIGTERM and then passes has timed out."""

        def pass_and_leave() -> None:
            self.ranks.says(0, Status.PASSED)
            self.ranks.exits(0, 0)

        self.ranks.on[0, int(signal.SIGTERM)] = pass_and_leave
        self.dies_of(1, signal.SIGTERM)
        self.assertEqual(self.statuses(self.watch()), [Status.TIMED_OUT] * 2)

    def test_report_after_the_grace(self) -> None:
        """A rank that reports only when its stack is asked for is collateral of the failure before."""
        self.ranks.says(1, Status.FAILED, error=replace(FAILURE, message="connection closed by peer"))
        self.ranks.on[0, RANK_STACKS] = lambda: self.ranks.says(0, Status.FAILED, error=FAILURE)
        self.dies_of(0, signal.SIGTERM)
        self.leaves_when_released(1, code=10)
        watched = self.watch()
        self.assertEqual(self.statuses(watched), [Status.ENDED, Status.FAILED])
        self.assertEqual(merge(watched.outcomes).root_cause, 1)

    def test_unread_report_at_the_deadline(self) -> None:
        """A report that was sent in time counts, even if the supervisor reads it after the deadline."""
        jumps = itertools.chain((0.0,), itertools.repeat(20.0))
        for rank in (0, 1):
            self.ranks.says(rank, Status.PASSED)
            self.leaves_when_released(rank)
        self.assertEqual(self.statuses(self.watch(clock=lambda: next(jumps))), [Status.PASSED] * 2)

    def test_deadline_counts_from_the_beginning(self) -> None:
        """The deadline counts from when the last rank began its test, or could have begun at the latest."""
        limits = replace(SHORT, timeout_s=50.0, start_s=100.0)
        for began, due_s in (((1, 1), 51), ((1, 70), 120), ((1, None), 150), ((None, None), 150)):
            with self.subTest(began=began):
                self.setUp()
                self.assertTrue(due_s < self.ended_at(began, limits) < due_s + FIRST_LOOK)

    def ended_at(self, began: tuple[int | None, ...], limits: Limits) -> float:
        """Returns when stacks were asked for, on a clock that advances a second with each look at it."""
        for rank, when in enumerate(began):
            self.dies_of(rank, signal.SIGTERM)
            with mock.patch.object(call_log, "monotonic", return_value=float(when or 0)):
                self.log(rank).begin_test()
        times = []
        advance = self.jumping_clock(lambda: None)

        def clock() -> float:
            times.append(advance())
            return times[-1]

        asked: list[int] = []
        self.ranks.on[0, int(RANK_STACKS)] = lambda: asked.append(len(times))
        self.watch(limits, clock)
        return times[asked[0] - 1]


if __name__ == "__main__":
    unittest.main()
