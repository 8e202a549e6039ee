"""Tests cases whose ranks are threads: their contract, verdicts, and ranks that do not come back."""

from __future__ import annotations

import os
import sys
import threading
import unittest
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from harness import Status
from harness.cases.threaded import spawn_threads_and_init_comms
from harness.ranks.threads.supervisor import ABANDONED
from suites.selftest.faults import threaded, threaded_collectives
from suites.selftest.faults.rows import FaultRows, Played, read_verdict

# Seconds; on an idle machine ranks on threads start in a thousandth of that.
DEADLINE = "1.5"
# Seconds for threads to end that were told to.
END_S = 30.0
MANY = 200
# Whether unittest tells of a sub-test as it ends, and not when its test is over, which a rank in a loop never
# sees.
TOLD_AT_ONCE = sys.version_info >= (3, 11)


def setUpModule() -> None:
    """Lets torch import what this call needs, because that leaves a directory."""
    torch.use_deterministic_algorithms(False)


class ContractTest(FaultRows):
    """What the author of a threaded test sees."""

    def test_hooks(self) -> None:
        """Each rank has a fresh instance and its hooks in its thread, and cleanups run last."""
        self.passes(threaded.Contract, "test_hooks")

    def test_on_rank(self) -> None:
        """assertEqualOnRank and assertNotEqualOnRank look on one rank only."""
        self.passes(threaded.Contract, "test_on_rank")

    def test_skip(self) -> None:
        """If all ranks skip, the test skips."""
        played = self.play(threaded.Contract, "test_skips")
        self.assertEqual((played.verdict, played.texts), ("skip", ("not today",)))

    def test_late(self) -> None:
        """A case that does not call _spawn_threads in setUp gets its ranks when the method runs."""
        self.passes(threaded.Late, "test_runs")

    def test_wrong_name(self) -> None:
        """A method that does not exist is a ValueError at construction."""
        with self.assertRaisesRegex(ValueError, "test_nothing"):
            threaded.Late("test_nothing")

    def test_threads_are_known(self) -> None:
        """``threads`` holds the ranks between setUp and tearDown, and they are gone afterwards."""
        case = threaded.Contract("test_on_rank")
        with mock.patch.dict(os.environ):
            case.setUp()
            self.assertEqual([t.rank for t in case.threads], [0, 1, 2])
            threads = list(case.threads)
            case.tearDown()
            case.doCleanups()
        self.assertFalse(any(t.is_alive() for t in threads), "never joined, and yet they are gone")


class VerdictTest(FaultRows):
    """Verdicts of faulty tests on threads, whose peers mostly wait in a barrier."""

    def bad(self, method: str, verdict: str, status: Status, *said: str, **more: Any) -> Played:
        """Checks a test in which rank 1 is the cause."""
        played = self.play(threaded.Faulty, method, **more.pop("environ", {}))
        self.check(played, verdict, status, *said, **more)
        return played

    def test_fails(self) -> None:
        """A failing rank is the cause; the verdict says where its peers wait, which are collateral."""
        words = (
            "rank 1 failed",
            "rank 1 will not play",
            "ranks 0, 2 wait in barrier #1 of the default group",
        )
        self.bad("test_fails", "FAIL", Status.FAILED, *words, collateral=(0, 2))

    def test_raises(self) -> None:
        """A rank that raises a BaseException is an error."""
        self.bad(
            "test_raises_something_of_its_own", "ERROR", Status.ERROR, "Unheard: straight", collateral=(0, 2)
        )

    def test_exits(self) -> None:
        """A sys.exit in a thread is a crash with its code."""
        self.bad("test_exits", "ERROR", Status.CRASHED, "exit code 7", "by sys.exit", collateral=(0, 2))

    def test_skips(self) -> None:
        """A divergent skip is an error."""
        words = "divergent skip: rank 1 skipped (not on rank 1)"
        self.bad("test_skips", "ERROR", Status.ERROR, words, collateral=(0, 2))

    def test_set_up_fails(self) -> None:
        """An error in perThreadSetUp is its rank's."""
        self.bad("test_set_up_fails", "ERROR", Status.ERROR, "RuntimeError: not ready", collateral=(0, 2))

    def test_cleanup_fails(self) -> None:
        """A cleanup that fails in a rank fails the test."""
        self.bad("test_cleanup_fails", "FAIL", Status.FAILED, "nothing was tidy")

    def test_subtests(self) -> None:
        """A failed sub-test is listed with its rank."""
        self.bad("test_subtests", "FAIL", Status.FAILED, "(number=2): failed on rank 1", "two on one")

    @unittest.skipUnless(TOLD_AT_ONCE, "unittest tells of sub-tests when the test is over")
    def test_subtest_skips(self) -> None:
        """A sub-test that one rank skips alone is an error that names it."""
        words = "sub-test (number=1): divergent skip: rank 1 skipped"
        self.bad("test_subtest_skips", "ERROR", Status.ERROR, words)

    def test_coroutine(self) -> None:
        """A method whose body nobody runs is an error before ranks start."""
        played = self.play(threaded.Faulty, "test_coroutine")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("test_coroutine is an async def, and a test on ranks has to be", played.text)
        self.assertIsNone(played.case._harness_outcome, "ranks have run")

    def test_subtest_and_hang(self) -> None:
        """A rank that is ended after its sub-test failed is the cause; its end fails no other sub-test."""
        words = ("sub-test (number=1)", "why rank 1 is elsewhere")
        for method in ("test_subtest_and_another_collective", "test_subtest_and_a_loop"):
            with self.subTest(method):
                before = set(threading.enumerate())
                played = self.play(threaded.Faulty, method, HARNESS_TIMEOUT=DEADLINE)
                for ending in set(threading.enumerate()) - before:  # still ending, on a busy machine
                    ending.join(END_S)
                self.assertEqual(played.outcome.root_cause, 1, played.text)
                for said in words if TOLD_AT_ONCE or method != "test_subtest_and_a_loop" else ():
                    self.assertIn(said, played.text)
                self.assertNotIn("(number=2)", played.text)

    def test_calls_another_collective(self) -> None:
        """If ranks call different collectives, the rank that comes second gets the error."""
        played = self.play(threaded.Faulty, "test_calls_another")
        self.assertEqual(played.outcome.status, Status.ERROR, played.text)
        self.assertIn("collectives differ at #1 of group 0", played.text)

    def test_expected_failure(self) -> None:
        """``expectedFailure`` works as in a single process."""
        played = self.play(threaded.Faulty, "test_expected_to_fail")
        self.assertEqual(played.verdict, "expected failure", played.text)
        played = self.play(threaded.Faulty, "test_passes_unexpectedly")
        self.assertEqual(played.verdict, "unexpected success", played.text)


class HangTest(FaultRows):
    """Ranks that do not come back."""

    def test_deadlock(self) -> None:
        """A collective that can never complete ends the test long before the deadline of a minute."""
        played = self.play(threaded.Faulty, "test_leaves_early")
        self.assertEqual((played.verdict, played.outcome.status), ("ERROR", Status.DEADLOCKED), played.text)
        self.assertIn("cause: rank 1 left the test; ranks 0, 2 wait in barrier #1", played.text)
        self.assertIn("in test_leaves_early", played.rank(0).stack)

    def test_deadlock_in_new_group(self) -> None:
        """A deadlock in new_group is found as well."""
        played = self.play(threaded.Faulty, "test_makes_no_group")
        self.assertEqual(played.outcome.status, Status.DEADLOCKED)
        self.assertIn("rank 1 left the test; ranks 0, 2 wait in new_group", played.text)

    def test_loop(self) -> None:
        """At the deadline, the rank that waits for no other is the cause, and its thread is ended."""
        played = self.play(threaded.Faulty, "test_loops", HARNESS_TIMEOUT=DEADLINE)
        self.check(played, "ERROR", Status.TIMED_OUT, "cause: rank 1", "in test_loops")
        self.assertNotIn("abandoned", played.text)

    def test_loop_beside_a_rank_that_awaits_its_turn(self) -> None:
        """A rank that another one keeps from running is not the cause, and is told as what it is."""
        name = "test_loops_while_a_peer_awaits_its_turn"
        threaded.ASLEEP.clear()
        played = self.play(threaded.Faulty, name, HARNESS_TIMEOUT=DEADLINE)
        self.check(played, "ERROR", Status.TIMED_OUT, "cause: rank 1 ", f"in {name}")
        self.assertIn("rank 0 waits for its turn to run (", played.text)

    def test_interrupted_until_it_ends(self) -> None:
        """A rank whose sub-tests take interruptions is interrupted again, until its thread ends."""
        before = set(threading.enumerate())
        played = self.play(threaded.Faulty, "test_subtest_and_a_loop", HARNESS_TIMEOUT=DEADLINE)
        self.check(played, "ERROR", Status.TIMED_OUT, *(("why rank 1 is elsewhere",) if TOLD_AT_ONCE else ()))
        self.assertNotIn("abandoned", played.text)
        self.assertEqual(set(threading.enumerate()) - before, set())

    def test_takes_every_interruption(self) -> None:
        """A rank that no interruption ends is abandoned at last, and the verdict says so."""
        threaded.GATE.clear()
        self.addCleanup(threaded.GATE.set)
        before = set(threading.enumerate())
        played = self.play(threaded.Faulty, "test_takes_interruptions", HARNESS_TIMEOUT=DEADLINE)
        self.check(played, "ERROR", Status.TIMED_OUT, "cause: rank 1", ABANDONED)
        threaded.GATE.set()
        for thread in set(threading.enumerate()) - before:
            thread.join(END_S)
            self.assertFalse(thread.is_alive())

    def test_stuck_thread_is_abandoned(self) -> None:
        """A thread that cannot be ended is reported as abandoned and does no harm when it goes on."""
        threaded.GATE.clear()
        self.addCleanup(threaded.GATE.set)
        before = set(threading.enumerate())
        played = self.play(threaded.Faulty, "test_sticks", HARNESS_TIMEOUT=DEADLINE)
        self.check(
            played,
            "ERROR",
            Status.TIMED_OUT,
            "rank 1 never came to barrier #1",
            "abandoned",
            "in test_sticks",
        )
        (stuck,) = set(threading.enumerate()) - before
        self.assertTrue(stuck.daemon)
        self.passes(threaded_collectives.CollectivesOnThreads, "test_moves")
        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
        self.addCleanup(dist.destroy_process_group)
        threaded.GATE.set()
        stuck.join(END_S)
        self.assertFalse(stuck.is_alive())
        self.assertTrue(dist.is_initialized(), "its destroy_process_group was for its own test's groups")


class DecoratorTest(unittest.TestCase):
    """``spawn_threads_and_init_comms`` on a plain TestCase."""

    def play(self, method: str) -> tuple[threaded.Decorated, str, str]:
        """Runs one decorated test; returns its instance, verdict and text."""
        case, result = threaded.Decorated(method), unittest.TestResult()
        case.run(result)
        verdict, texts = read_verdict(result)
        return case, verdict, "\n".join(texts)

    def test_passes(self) -> None:
        """The world size is the one asked for, attributes are shared, and cleanups run in the ranks."""
        case, verdict, text = self.play("test_four")
        self.assertEqual(verdict, "pass", text)
        self.assertEqual(sorted(case.seen), [0, 1, 2, 3])
        self.assertEqual(sorted(case.cleaned), [0, 1, 2, 3])

    def test_subtests(self) -> None:
        """The default is four ranks, of which one fails in a sub-test."""
        _, verdict, text = self.play("test_bare")
        self.assertEqual(verdict, "FAIL", text)
        self.assertIn("(rank=1): failed on rank 1", text)
        self.assertIn("(world size 4)", text)

    def test_failure_is_a_runtime_error(self) -> None:
        """A failure is also a RuntimeError, as callers of upstream's decorated functions expect."""

        @spawn_threads_and_init_comms(world_size=2)
        def fails(case: unittest.TestCase) -> None:
            case.assertEqual(dist.get_rank(), 0)

        with self.assertRaisesRegex(RuntimeError, "rank 1 failed: AssertionError") as raised:
            fails(self)
        self.assertIsInstance(raised.exception, self.failureException)

    def test_times_out(self) -> None:
        """The decorator's own deadline ends the test."""
        _, verdict, text = self.play("test_times_out")
        self.assertEqual(verdict, "ERROR", text)
        self.assertIn("cause: rank 1", text)


if __name__ == "__main__":
    unittest.main()
