"""Tests an in-process rank: its outcome, how it is stopped, and what is cleaned up after it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import unittest
from collections.abc import Callable
from typing import NoReturn

import torch
import torch.distributed as dist

from harness import Status
from harness.outcomes import RankOutcome, SubtestOutcome
from harness.ranks import process_groups
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.external.rank import InProcessRank, TestStopped, clean_up
from harness.ranks.result import RankResult
from harness.system.signals import STOP_TEST

# Seconds. Long enough for the test to be stopped.
LONG_S = 3600.0


def passes(channel: DirectChannel) -> None:
    """A test that has passed."""
    channel.record(RankResult(Status.PASSED))


def stopped(body: Callable[[DirectChannel], object], inside: threading.Event) -> RankOutcome:
    """The outcome of a test that is stopped, as one that took too long, once it has set ``inside``."""
    rank = InProcessRank(0, body)

    def stop() -> None:
        inside.wait()
        rank.stop(Status.TIMED_OUT)

    stopper = threading.Thread(target=stop)
    stopper.start()
    outcome = rank.run()
    stopper.join()
    return outcome


class ResidentTest(unittest.TestCase):
    """An in-process rank, mostly in the main thread."""

    def test_passes(self) -> None:
        """And says who it is."""
        outcome = InProcessRank(3, passes).run()
        self.assertEqual((outcome.rank, outcome.status, outcome.exit_code), (3, Status.PASSED, 0))
        self.assertEqual((outcome.pid, outcome.left), (os.getpid(), ()))

    def test_raises(self) -> None:
        """An exception that leaves the body is the outcome; KeyboardInterrupt is also an interruption."""
        for kind, status, interrupted in (
            (AssertionError, Status.FAILED, False),
            (OSError, Status.ERROR, False),
            (KeyboardInterrupt, Status.ERROR, True),
        ):

            def body(channel: DirectChannel, kind: type[BaseException] = kind) -> NoReturn:
                raise kind("as planned")

            with self.subTest(kind):
                rank = InProcessRank(0, body)
                self.assertEqual(rank.run().status, status)
                self.assertEqual(rank.interrupted, interrupted)
                self.assertTrue(rank.done.is_set())

    def test_exits(self) -> None:
        """With the code that its process would have had."""
        outcome = InProcessRank(0, lambda channel: sys.exit(7)).run()
        self.assertEqual((outcome.status, outcome.exit_code), (Status.CRASHED, 7))

    def test_stopped(self) -> None:
        """A rank that is stopped in a sleep runs its cleanups, and its stack is that of the test."""
        cleaned: list[bool] = []

        def sleeps(channel: DirectChannel) -> None:
            inside.set()
            try:
                time.sleep(LONG_S)
            except TestStopped:
                cleaned.append(True)
                raise

        inside = threading.Event()
        outcome = stopped(sleeps, inside)
        self.assertEqual((outcome.status, outcome.error, cleaned), (Status.TIMED_OUT, None, [True]))
        self.assertIn("in sleeps", outcome.stack)
        self.assertNotIn("unittest", outcome.stack)

    def test_stopped_after_sub_tests(self) -> None:
        """Sub-tests that failed before the stop are in the outcome, and the one that was stopped is not."""
        before, within = (SubtestOutcome(None, (("n", n),), Status.FAILED) for n in "12")

        def sleeps(channel: DirectChannel) -> None:
            channel.subtest_failed(before)
            inside.set()
            try:
                time.sleep(LONG_S)
            except TestStopped:
                channel.subtest_failed(within)
                channel.record(RankResult(Status.FAILED, subtests=(before, within)))

        inside = threading.Event()
        outcome = stopped(sleeps, inside)
        self.assertEqual((outcome.status, outcome.subtests), (Status.TIMED_OUT, (before,)))

    def test_calls_of_a_stopped_test(self) -> None:
        """What the test calls after it was stopped is not what it was in then: nothing."""

        def calls_late(channel: DirectChannel) -> None:
            inside.set()
            try:
                time.sleep(LONG_S)
            except TestStopped:
                dist.all_reduce(torch.ones(1))

        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(clean_up, passed=True)
        inside = threading.Event()
        self.assertEqual(stopped(calls_late, inside).calls, ())

    def test_stopped_afterwards(self) -> None:
        """A test that is over stays what it was, and a signal that comes late disturbs nobody."""
        rank = InProcessRank(0, passes)
        outcome = rank.run()
        rank.stop(Status.TIMED_OUT)
        signal.raise_signal(STOP_TEST)
        self.assertEqual(outcome.status, Status.PASSED)

    def test_elsewhere(self) -> None:
        """In another thread, where nothing can be raised, the rank is stuck and the outcome has its stack."""

        def waits(channel: DirectChannel) -> None:
            channel.subtest_failed(subtest)
            inside.set()
            go_on.wait()

        subtest = SubtestOutcome(None, (), Status.FAILED)
        inside, go_on = threading.Event(), threading.Event()
        ranks: list[InProcessRank] = []

        def live() -> None:
            ranks.append(InProcessRank(1, waits))
            ranks[0].run()

        thread = threading.Thread(target=live)
        thread.start()
        inside.wait()
        ranks[0].stop(Status.ENDED)
        stuck = ranks[0].stuck()
        go_on.set()
        thread.join()
        self.assertEqual((stuck.rank, stuck.status), (1, Status.ENDED))
        self.assertIn("could not be interrupted", stuck.note)
        self.assertEqual(stuck.subtests, (subtest,))
        self.assertIn("in waits", stuck.stack)

    def test_leaves_something(self) -> None:
        """What the test changed is in the outcome, except what it changed before it called ``ready``."""

        def body(channel: DirectChannel) -> None:
            os.environ["SELFTEST_EARLY"] = "1"
            channel.ready()
            os.environ["SELFTEST_LATE"] = "1"
            passes(channel)

        for name in ("SELFTEST_EARLY", "SELFTEST_LATE"):
            self.addCleanup(os.environ.pop, name, None)
        self.assertEqual(InProcessRank(0, body).run().left, ("environment: SELFTEST_LATE",))


class CleanUpTest(unittest.TestCase):
    """``clean_up``, which removes the process groups that a test leaves."""

    def test_destroys(self) -> None:
        """Groups are destroyed, so that the next test's have the same names."""
        for passed in (True, False):
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
            self.assertEqual(process_groups.group_names(), {"0"})
            clean_up(passed=passed)
            self.assertEqual(process_groups.group_names(), frozenset())

    def test_forgets(self) -> None:
        """A group whose creation failed is no longer counted."""
        with self.assertRaises(Exception):  # noqa: B017 - which exception it is, torch decides
            dist.init_process_group("gloo", store=dist.HashStore(), rank=3, world_size=2)
        self.assertGreater(process_groups.groups_begun(), 0)
        clean_up(passed=False)
        self.assertEqual(process_groups.groups_begun(), 0)


if __name__ == "__main__":
    unittest.main()
