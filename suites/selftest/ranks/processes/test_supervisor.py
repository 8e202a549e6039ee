"""Tests the supervisor's loop on played ranks: everything that may come from them, in any order."""

from __future__ import annotations

import contextlib
import functools
import itertools
import signal
import unittest
from dataclasses import replace

from harness.communication_call import Signature
from harness.outcomes import RankOutcome, Status
from harness.protocol import Report, encode
from harness.rank_merging import MergeRules, merge
from harness.ranks.deadlines import Limits
from harness.ranks.job import UNSWEPT
from harness.system.signals import RANK_STACKS
from suites.selftest.ranks.processes.played import Played
from suites.selftest.ranks.processes.supervised import (
    FAILURE,
    SHORT,
    SupervisorCase,
    interrupted_clock,
)


class SupervisorTest(SupervisorCase):
    """The supervisor with two played ranks; rank 0 is well-behaved unless a test says otherwise."""

    def test_all_pass(self) -> None:
        """No rank is released before all have reported, and the outcomes hold their output and memory."""
        self.ranks.says(1, Status.PASSED)
        self.ranks.prints(1, b"hello")
        self.leaves_when_released(0)
        self.leaves_when_released(1)
        self.ranks.says(0, Status.PASSED)
        watched = self.watch()
        self.assertEqual(self.statuses(watched), [Status.PASSED] * 2)
        self.assertEqual(self.ranks.told, [(0, "release"), (1, "release")])
        self.assertEqual((watched.outcomes[1].output, watched.outcomes[1].peak_memory), ("hello", 1 << 20))
        self.assertEqual(sorted(o.order for o in watched.outcomes), [0, 1])
        self.assertEqual([o.pid for o in watched.outcomes], [1000, 1001])

    def test_interrupted_anywhere(self) -> None:
        """Ctrl-C counts while the supervisor decides and acts as while it waits; the second ends it."""
        patient = replace(SHORT, timeout_s=300.0)
        for places, calls in (("one", (2,)), ("another", (3,)), ("a third", (4,)), ("twice", (2, 4))):
            with self.subTest(places), contextlib.ExitStack() as undo:
                self.ranks = undo.enter_context(contextlib.closing(Played(2)))
                for rank in (0, 1):
                    self.dies_of(rank, signal.SIGTERM)
                clock = interrupted_clock(calls)
                if len(calls) == 2:
                    self.assertRaises(KeyboardInterrupt, self.watch, patient, clock)
                    continue
                watched = self.watch(patient, clock)
                self.assertTrue(watched.interrupted)
                self.assertEqual(self.statuses(watched), [Status.ENDED] * 2)

    def test_no_word(self) -> None:
        """A rank that exits without a report has crashed, even with code 0."""
        self.ranks.says(0, Status.PASSED)
        self.leaves_when_released(0)
        self.ranks.exits(1, 0)
        watched = self.watch()
        self.assertEqual(self.statuses(watched), [Status.PASSED, Status.CRASHED])
        self.assertEqual(watched.outcomes[1].exit_code, 0)

    def test_last_words(self) -> None:
        """A report and output that arrive together with the news of the rank's end still count."""
        self.ranks.says(0, Status.PASSED)
        self.leaves_when_released(0)
        self.ranks.says(1, Status.FAILED, error=FAILURE)
        self.ranks.prints(1, b"last words")
        self.ranks.exits(1, 10)
        watched = self.watch()
        self.assertEqual(self.statuses(watched), [Status.PASSED, Status.FAILED])
        self.assertEqual(watched.outcomes[1].output, "last words")

    def test_passed_and_died(self) -> None:
        """A pass followed by an exit code other than 0 is a crash on exit."""
        for rank in (0, 1):
            self.ranks.says(rank, Status.PASSED)
            self.leaves_when_released(rank, code=-11 * rank)
        watched = self.watch()
        self.assertEqual(self.statuses(watched), [Status.PASSED, Status.CRASHED])
        self.assertEqual((watched.outcomes[1].phase, watched.outcomes[1].exit_code), ("exit", -11))

    def test_failure_ends_the_others(self) -> None:
        """After a failure and its grace, the other rank's stack is taken, and it is ended as collateral."""
        self.ranks.says(1, Status.FAILED, error=FAILURE)
        self.leaves_when_released(1, code=10)
        dump = (
            b'Thread 0x1 (most recent call first):\n  File "t.py", line 3 in wait\n  File "t" in <module>\n'
        )
        self.ranks.on[0, RANK_STACKS] = lambda: self.ranks.dumps(0, dump)
        self.dies_of(0, signal.SIGTERM)
        watched = self.watch()
        self.assertEqual(self.statuses(watched), [Status.ENDED, Status.FAILED])
        self.assertIn('"t.py", line 3 in wait', watched.outcomes[0].stack)
        self.assertEqual(self.ranks.told[0], (0, RANK_STACKS))
        self.assertEqual(merge(watched.outcomes).root_cause, 1)

    def test_ladder(self) -> None:
        """A rank that hangs gets the stack signal, SIGTERM and SIGKILL, in this order."""
        self.ranks.says(0, Status.PASSED)
        self.leaves_when_released(0)
        self.dies_of(1, signal.SIGKILL)
        watched = self.watch()
        self.assertEqual(self.statuses(watched), [Status.PASSED, Status.TIMED_OUT])
        mine = [what for rank, what in self.ranks.told if rank == 1]
        self.assertEqual(mine, [RANK_STACKS, signal.SIGTERM, signal.SIGKILL])

    def test_does_not_die(self) -> None:
        """If a rank survives even SIGKILL, the supervisor gives up and says so."""
        self.ranks.says(0, Status.PASSED)
        self.leaves_when_released(0)
        jumps = itertools.count(0.0, 20.0)
        watched = self.watch(clock=lambda: next(jumps))
        self.assertEqual(watched.outcomes[1].status, Status.TIMED_OUT)
        self.assertEqual(watched.outcomes[1].note, "does not die")

    def test_hangs_at_exit(self) -> None:
        """A rank that passed and does not exit has timed out in the phase "exit"."""
        for rank in (0, 1):
            self.ranks.says(rank, Status.PASSED)
        self.leaves_when_released(0)
        self.dies_of(1, signal.SIGTERM)
        watched = self.watch()
        self.assertEqual(self.statuses(watched), [Status.PASSED, Status.TIMED_OUT])
        self.assertEqual(watched.outcomes[1].phase, "exit")

    def test_fails_and_hangs_at_exit(self) -> None:
        """A rank that failed and does not exit is still the failure that is the cause."""
        self.ranks.says(0, Status.PASSED)
        self.ranks.says(1, Status.FAILED, error=FAILURE)
        self.leaves_when_released(0)
        self.dies_of(1, signal.SIGTERM)
        watched = self.watch()
        self.assertEqual(self.statuses(watched), [Status.PASSED, Status.FAILED])
        self.assertEqual(merge(watched.outcomes).status, Status.FAILED)
        self.assertIn("did not leave", merge(watched.outcomes).reason)

    def test_crashes_and_hangs_at_exit(self) -> None:
        """A hang at exit is a time-out even if the test announced any exit code."""
        self.ranks.says(0, Status.PASSED)
        self.ranks.says(1, Status.CRASHED)
        self.leaves_when_released(0)
        self.dies_of(1, signal.SIGTERM)
        rules = MergeRules(any_exit=True)
        watched = self.watch(rules=rules)
        self.assertEqual(merge(watched.outcomes, rules).status, Status.TIMED_OUT)

    def test_killed_by_somebody_else(self) -> None:
        """What is known of why a rank was killed is said, before and after its report, if it was not us."""
        self.ranks.killed = "the reason"
        self.ranks.says(0, Status.PASSED)
        for rank in range(2):
            self.ranks.exits(rank, -signal.SIGKILL)
        watched = self.watch()
        self.assertEqual(self.statuses(watched), [Status.CRASHED] * 2)
        self.assertEqual(
            [outcome.note for outcome in watched.outcomes],
            ["after its test had passed; the reason", "the reason"],
        )

    def test_killed_by_the_supervisor(self) -> None:
        """A rank that hangs until it is killed has no other reason for that."""
        self.ranks.killed = "the reason"
        self.ranks.says(0, Status.PASSED)
        self.leaves_when_released(0)
        self.dies_of(1, signal.SIGKILL)
        self.assertEqual([outcome.note for outcome in self.watch().outcomes], ["", ""])

    def test_no_word_on_leftovers(self) -> None:
        """If the server does not report its sweep, the supervisor gives up and notes it."""
        for rank in (0, 1):
            self.ranks.says(rank, Status.PASSED)
            self.ranks.on[rank, "release"] = functools.partial(self.ranks.exits, rank, 0, swept=False)
        jumps = itertools.count(0.0, 20.0)
        watched = self.watch(clock=lambda: next(jumps))
        self.assertEqual(self.statuses(watched), [Status.PASSED] * 2)
        self.assertEqual(watched.notes, (UNSWEPT,))
        self.assertLess(next(jumps), 1000.0)  # it has not gone round and round

    def test_code_of_a_rank_that_lives(self) -> None:
        """A kept rank's own report gives the exit code with which the test wanted to end it."""
        self.ranks.says(0, Status.PASSED)
        self.ranks.says(1, Status.CRASHED, exit_code=3)
        watched = self.watch(keep=True, rules=MergeRules(expected_exit=3))
        self.assertEqual(watched.outcomes[1].exit_code, 3)

    def test_skip_gets_its_own_grace(self) -> None:
        """After a skip and its own grace, the other rank is ended as collateral."""
        self.ranks.says(1, Status.SKIPPED, skip_reason="not here")
        self.leaves_when_released(1, code=75)
        self.dies_of(0, signal.SIGTERM)
        long = Limits(timeout_s=60, grace_s=60, skip_grace_s=0.05, exit_grace_s=60)
        watched = self.watch(long)
        self.assertEqual(self.statuses(watched), [Status.ENDED, Status.SKIPPED])

    def test_lie(self) -> None:
        """A rank that reports for another is believed no more, not even about itself."""
        self.ranks.says(0, Status.PASSED)
        self.leaves_when_released(0)
        self.ranks.sends(1, encode(Report(RankOutcome(0, Status.FAILED))))
        self.ranks.sends(1, encode(Report(RankOutcome(1, Status.PASSED))))
        self.dies_of(1, signal.SIGTERM)
        watched = self.watch()
        self.assertEqual(self.statuses(watched), [Status.PASSED, Status.CRASHED])
        self.assertIn("no report", watched.outcomes[1].note)

    def test_server_lost(self) -> None:
        """If the server is lost, no rank is waited for, and earlier reports are kept."""
        self.ranks.says(0, Status.PASSED)
        self.ranks.server_dies()
        watched = self.watch(Limits(60, 60, 60, 60))
        self.assertTrue(watched.server_lost)
        self.assertEqual(self.statuses(watched), [Status.PASSED, Status.CRASHED])

    def test_leaks(self) -> None:
        """What the server swept is in the result."""
        for rank in (0, 1):
            self.ranks.says(rank, Status.PASSED)
        self.leaves_when_released(0)
        self.ranks.on[1, "release"] = lambda: self.ranks.exits(1, 0, leaked=("process 7: sleep",))
        self.assertEqual(self.watch().leaked, ("process 7: sleep",))

    def test_keep(self) -> None:
        """Pooled ranks are left alone once all have reported."""
        for rank in (0, 1):
            self.ranks.says(rank, Status.PASSED)
        self.assertEqual(self.statuses(self.watch(keep=True)), [Status.PASSED] * 2)
        self.assertEqual(self.ranks.told, [])

    def test_collectives(self) -> None:
        """Read from the rank's memory file, of a rank that says nothing any more too."""
        self.calls(1, Signature("all_reduce", "0"))
        self.ranks.says(0, Status.PASSED)
        self.leaves_when_released(0)
        self.ranks.exits(1, -9)
        watched = self.watch()
        self.assertEqual([str(c) for c in watched.outcomes[1].calls], ["all_reduce #1 of group 0"])

    def test_deadlock(self) -> None:
        """A rank that can never go on is ended long before the deadline, and the cause is who left it."""
        self.calls(1, Signature("barrier", "1", members=(0, 1)))
        self.ranks.says(0, Status.PASSED)
        self.leaves_when_released(0)
        self.dies_of(1, signal.SIGTERM)
        watched = self.watch(Limits(timeout_s=600.0, grace_s=1.0, skip_grace_s=1.0, exit_grace_s=1.0))
        self.assertEqual(self.statuses(watched), [Status.PASSED, Status.DEADLOCKED])
        merged = merge(watched.outcomes)
        self.assertEqual((merged.status, merged.root_cause), (Status.DEADLOCKED, 0))
        self.assertIn("rank 0 left the test", merged.reason)


if __name__ == "__main__":
    unittest.main()
