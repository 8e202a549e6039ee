"""Tests one rank that is a thread, on an owner that notes what the thread tells it."""

from __future__ import annotations

import sys
import threading
import unittest
from collections.abc import Callable
from unittest import mock

from harness.outcomes import Status, SubtestOutcome
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.threads.rank import RankEnded, RankThread, current
from suites.selftest.ranks.threads.running import ARRIVAL_S

RANK = 3


class Owner:
    """A ``ThreadOwner`` whose ranks run a function; ``notes`` holds the thread's calls, in order."""

    def __init__(self, body: Callable[[RankThread], None] = lambda thread: None) -> None:
        self.over = False
        self.abandoned: tuple[int, ...] = ()
        self.notes: list[tuple[str, object]] = []
        self._body = body

    def run_rank(self, thread: RankThread) -> None:
        """Notes the rank whose thread the calling one is, and runs the function."""
        self.notes.append(("run", current()))
        self._body(thread)

    def on_thread_end(self, thread: RankThread) -> None:
        """Notes the rank whose thread the calling one is."""
        self.notes.append(("end", current()))

    def subtest_failed(self, rank: int, subtest: SubtestOutcome) -> None:
        """Notes the rank and its sub-test."""
        self.notes.append(("sub-test", (rank, subtest)))


def refuse(thread: RankThread) -> None:
    """Fails as a test does."""
    raise ValueError("no")


class LifeTest(unittest.TestCase):
    """The thread of one rank, from its start to its end."""

    def run_thread(self, owner: Owner) -> tuple[RankThread, mock.Mock]:
        """Runs a rank to its end; returns its thread and the hook for exceptions that end a thread."""
        thread = RankThread(owner, RANK)
        with mock.patch.object(threading, "excepthook") as hook:
            thread.start()
            thread.join(ARRIVAL_S)
        self.assertFalse(thread.is_alive())
        return thread, hook

    def test_runs_then_reports_its_end(self) -> None:
        """The rank runs in its own thread, which reports its end last."""
        owner = Owner()
        thread, hook = self.run_thread(owner)
        self.assertEqual(owner.notes, [("run", thread), ("end", thread)])
        hook.assert_not_called()

    def test_is_a_daemon(self) -> None:
        """The thread does not keep the process alive, and its name tells the rank."""
        thread = RankThread(Owner(), RANK)
        self.assertTrue(thread.daemon)
        self.assertEqual((thread.name, thread.rank), (f"rank {RANK}", RANK))

    def test_system_exit_is_silent(self) -> None:
        """A rank whose test is over, or that is interrupted, reports its end and prints no traceback."""
        for error in (RankEnded("over"), SystemExit(1)):
            with self.subTest(type(error).__name__):
                owner = Owner(mock.Mock(side_effect=error))
                thread, hook = self.run_thread(owner)
                self.assertEqual(owner.notes[-1], ("end", thread))
                hook.assert_not_called()

    def test_another_exception_is_shown(self) -> None:
        """Any other exception, which is a fault of the harness, is shown, and the end is reported first."""
        owner = Owner(refuse)
        thread, hook = self.run_thread(owner)
        self.assertEqual(owner.notes[-1], ("end", thread))
        self.assertIs(hook.call_args.args[0].exc_type, ValueError)

    def test_stack(self) -> None:
        """The stack shows where the rank is; it is empty before the thread starts and after it has ended."""
        entered, go = threading.Event(), threading.Event()

        def waits_here(thread: RankThread) -> None:
            entered.set()
            go.wait(ARRIVAL_S)

        thread = RankThread(Owner(waits_here), RANK)
        self.assertEqual(thread.stack(), "")
        thread.start()
        entered.wait(ARRIVAL_S)
        stack = thread.stack()
        go.set()
        thread.join(ARRIVAL_S)
        self.assertIn("in waits_here", stack)
        self.assertEqual(thread.stack(), "")


class RankThreadTest(unittest.TestCase):
    """What a rank's thread knows and tells, without being started."""

    def setUp(self) -> None:
        self.owner = Owner()
        self.thread = RankThread(self.owner, RANK)

    def test_current(self) -> None:
        """A thread that is not a rank's has no current rank."""
        self.assertIsNone(current())

    def test_numbers(self) -> None:
        """The collectives of each group are numbered from 1, apart from those of other groups and ranks."""
        other = RankThread(self.owner, RANK + 1)
        keys = ["0", "0", "1", "0"]
        self.assertEqual([self.thread.next_number(key) for key in keys], [1, 2, 1, 3])
        self.assertEqual(other.next_number("0"), 1)

    def test_stops_where_the_test_is_over(self) -> None:
        """RankEnded, which ``except Exception`` does not catch, is raised only once the test is over."""
        self.thread.stop_if_over()
        self.owner.over = True
        with self.assertRaisesRegex(RankEnded, f"rank {RANK} is over") as raised:
            self.thread.stop_if_over()
        self.assertNotIsInstance(raised.exception, Exception)

    def test_subtest_failed(self) -> None:
        """The owner is told which rank's sub-test failed."""
        subtest = SubtestOutcome(None, (("n", "1"),), Status.FAILED)
        self.thread.channel.subtest_failed(subtest)
        self.assertEqual(self.owner.notes, [("sub-test", (RANK, subtest))])


class InterruptionTest(unittest.TestCase):
    """Interruptions, which reach a rank's body only."""

    def test_body_alone(self) -> None:
        """The body may take an interruption and ends by the next one; afterwards there is none."""
        taken: list[str] = []

        def body(rank: int, channel: DirectChannel) -> None:
            thread = current()
            assert thread is not None
            try:
                thread.interrupt()
                sum(range(3))
            except SystemExit:
                taken.append("first")
            thread.interrupt()

        def run(thread: RankThread) -> None:
            thread.interrupt()  # before the body
            taken.append(repr(thread.end_of(body)))
            thread.interrupt()  # after it
            taken.append("reported")

        thread = RankThread(Owner(run), RANK)
        thread.start()
        thread.join(ARRIVAL_S)
        self.assertEqual(taken, ["first", "SystemExit()", "reported"])

    def test_on_its_way(self) -> None:
        """An interruption that was sent before the body's end, and is raised behind it, is no result."""
        sent = mock.Mock()

        def run(thread: RankThread) -> None:
            with mock.patch.object(thread, "_leave_body", side_effect=[SystemExit, None]) as leave:
                sent(thread.end_of(lambda rank, channel: None))
            sent(leave.call_count)

        thread = RankThread(Owner(run), RANK)
        thread.start()
        thread.join(ARRIVAL_S)
        self.assertEqual(sent.mock_calls, [mock.call(None), mock.call(2)])

    def test_traced(self) -> None:
        """Threads with a profile function, as coverage sets one, go on after an interruption, or without one.

        Whether it has been raised yet, or never will be, because the rank waits in C.
        """
        entered, go = threading.Event(), threading.Event()
        done: list[str] = []

        def waits_in_c(rank: int, channel: DirectChannel) -> None:
            entered.set()
            go.wait()

        def run(thread: RankThread) -> None:
            done.append(repr(thread.end_of(waits_in_c)))

        def interrupts() -> None:
            sys.setprofile(lambda frame, event, argument: None)
            quick = RankThread(Owner(lambda thread: done.append(repr(thread.end_of(leaves)))), RANK)
            quick.run()
            thread = RankThread(Owner(run), RANK)
            thread.start()
            entered.wait()
            thread.interrupt()
            done.append(plain())
            go.set()
            thread.join()
            done.append(plain())

        with mock.patch.object(threading, "_profile_hook", lambda frame, event, argument: None):
            thread = threading.Thread(target=interrupts, daemon=True)
            thread.start()
            thread.join(ARRIVAL_S)
        self.assertEqual(done, ["None", "called", "SystemExit()", "called"])


def leaves(rank: int, channel: DirectChannel) -> None:
    """The body of a rank that nobody interrupts."""


def plain() -> str:
    """A function of Python."""
    return "called"


if __name__ == "__main__":
    unittest.main()
