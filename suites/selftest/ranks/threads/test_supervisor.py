"""Self-tests of harness.ranks.threads.supervisor: verdicts over scripted ranks on a scripted clock."""

from __future__ import annotations

import mmap
import time
import unittest
from collections.abc import Callable, Sequence
from typing import cast
from unittest import mock

from harness.communication.call_log import LOG_BYTES, CallLog
from harness.communication_call import Signature
from harness.outcomes import RankOutcome, Status, SubtestOutcome
from harness.protocol import SubtestFailed
from harness.rank_merging import MergeRules, merge
from harness.ranks.deadlines import TERM_WAIT_S, Limits
from harness.ranks.threads.rank import ThreadEnded
from harness.ranks.threads.rank_set import RankThreads
from harness.ranks.threads.supervisor import (
    ABANDONED,
    LEAST_INTERRUPTIONS,
    ThreadSupervisor,
    supervise_threads,
)
from harness.settings import Settings

LIMITS = Limits(timeout_s=60.0, grace_s=1.0, skip_grace_s=10.0, exit_grace_s=5.0)


class ScriptedThread:
    """A rank's thread with a fixed stack."""

    def __init__(self, rank: int) -> None:
        self.calls = mmap.mmap(-1, LOG_BYTES)
        self.waits = False
        self._rank = rank

    def stack(self) -> str:
        return f"stack of rank {self._rank}"


class ScriptedRanks:
    """Ranks that follow a script; when it is silent, the clock jumps to the end of the wait."""

    def __init__(self, size: int, script: Sequence[object], *, deadlocked: tuple[int, ...] = ()) -> None:
        self.threads = [ScriptedThread(rank) for rank in range(size)]
        self.world_size = size
        self.script = list(script)
        self.deadlocked = deadlocked
        self.now = 0.0
        self.did: list[str] = []
        self.gone: set[int] = set()
        self.await_turn: set[int] = set()
        self.late_s = 0.0  # what each wait takes beyond its end
        self.takes = 0  # the number of interruptions after which the ranks go on
        self.leaves_when: tuple[str, ...] = ("release", "wake", "interrupt")

    def next_event(self, timeout_s: float | None) -> object:
        if self.script:
            event = self.script.pop(0)
            if isinstance(event, BaseException):
                raise event
            self.now += timeout_s or 0.0 if event is None else 0.0
            return event
        for rank in range(len(self.threads)):
            told = any(word in self.leaves_when for word in self.did)
            if rank not in self.gone and told and self.takes <= (-1 if "interrupt" in self.did else 0):
                self.gone.add(rank)
                return ThreadEnded(rank)
        assert timeout_s is not None
        self.now += timeout_s + self.late_s
        return None

    def settle(self) -> None:
        self.did.append("settle")

    def check_for_stall(self, until_s: float) -> tuple[int, ...]:
        self.until_s = until_s
        return self.deadlocked

    def awaits_turn(self, rank: int) -> bool:
        return rank in self.await_turn

    def release(self) -> None:
        self.did.append("release")

    def wake(self) -> None:
        self.did.append("wake")

    def interrupt(self) -> None:
        self.did.append("interrupt")
        self.takes -= 1

    def interrupt_all(self) -> None:
        self.did.append("interrupt all")

    def close(self) -> tuple[int, ...]:
        self.did.append("close")
        return tuple(r for r in range(len(self.threads)) if r not in self.gone)


def said(rank: int, status: Status, exit_code: int | None = None) -> RankOutcome:
    """Returns a rank's report."""
    return RankOutcome(rank, status, exit_code=exit_code)


class ThreadSupervisorTest(unittest.TestCase):
    """The supervisor of threaded ranks."""

    def run_on(self, ranks: ScriptedRanks, rules: MergeRules | None = None) -> list[Status]:
        """Supervises, returns the statuses by rank, and keeps the outcomes in ``self.outcomes``."""
        watched = ThreadSupervisor(
            cast(RankThreads, ranks), LIMITS, 0.0, rules or MergeRules(), clock=lambda: ranks.now
        ).run()
        self.outcomes = watched.outcomes
        return [o.status for o in watched.outcomes]

    def test_all_pass(self) -> None:
        """If all ranks pass, they are released and not woken."""
        ranks = ScriptedRanks(2, [said(1, Status.PASSED), said(0, Status.PASSED)])
        self.assertEqual(self.run_on(ranks), [Status.PASSED] * 2)
        self.assertEqual(ranks.did, ["release", "close"])
        self.assertEqual([o.order for o in self.outcomes], [1, 0])

    def test_settles_first(self) -> None:
        """Nothing is done while a rank has builtins replaced that it may put back."""
        ranks = ScriptedRanks(1, [said(0, Status.PASSED)])
        supervise_threads(cast(RankThreads, ranks), Settings(), started=time.monotonic(), timeout_s=60.0)
        self.assertEqual(ranks.did, ["settle", "release", "close"])

    def test_failure_and_grace(self) -> None:
        """After a failure and its grace, peers are collateral and their stacks are taken."""
        ranks = ScriptedRanks(2, [said(1, Status.FAILED)])
        self.assertEqual(self.run_on(ranks), [Status.ENDED, Status.FAILED])
        self.assertGreaterEqual(ranks.now, LIMITS.grace_s)
        self.assertLess(ranks.now, LIMITS.timeout_s)
        self.assertEqual(self.outcomes[0].stack, "stack of rank 0")
        self.assertEqual(ranks.did, ["wake", "close"])

    def test_deadlock_ends_at_once(self) -> None:
        """A deadlock ends the test long before its deadline, with the verdict of the rank that ended."""
        rows = (
            (Status.FAILED, Status.ENDED),
            (Status.SKIPPED, Status.ENDED),
            (Status.PASSED, Status.DEADLOCKED),
        )
        for status, other in rows:
            with self.subTest(status=status):
                ranks = ScriptedRanks(2, [said(1, status)], deadlocked=(0,))
                self.assertEqual(self.run_on(ranks), [other, status])
                self.assertLess(ranks.now, LIMITS.grace_s)

    def test_some_are_deadlocked(self) -> None:
        """Where a rank could go on, it is ended with those that cannot; after a failure it gets its grace."""
        ranks = ScriptedRanks(2, [None], deadlocked=(1,))
        self.assertEqual(self.run_on(ranks), [Status.ENDED, Status.DEADLOCKED])
        self.assertLess(ranks.now, LIMITS.grace_s)
        self.assertEqual(ranks.until_s, LIMITS.timeout_s)
        ranks = ScriptedRanks(3, [said(2, Status.FAILED)], deadlocked=(1,))
        self.assertEqual(self.run_on(ranks), [Status.ENDED, Status.ENDED, Status.FAILED])
        self.assertGreaterEqual(ranks.now, LIMITS.grace_s)

    def test_deadline(self) -> None:
        """At the deadline ranks are woken, interrupted and then abandoned; one that waits is blamed last."""
        ranks = ScriptedRanks(3, [said(2, Status.PASSED)])
        ranks.leaves_when = ()
        ranks.threads[0].waits = True
        ranks.await_turn = {0}
        self.assertEqual(self.run_on(ranks), [Status.TIMED_OUT, Status.TIMED_OUT, Status.PASSED])
        self.assertEqual([o.phase for o in self.outcomes], ["turn", "test", "test"])
        self.assertEqual(
            (ranks.did[0], set(ranks.did[1:-1]), ranks.did[-1]), ("wake", {"interrupt"}, "close")
        )
        self.assertEqual(ranks.now, LIMITS.timeout_s + TERM_WAIT_S)
        self.assertGreaterEqual(len(ranks.did) - 2, LEAST_INTERRUPTIONS)
        self.assertLess(self.outcomes[1].order, self.outcomes[0].order)
        self.assertEqual(self.outcomes[1].note, ABANDONED)

    def test_interrupted_again(self) -> None:
        """A rank that takes interruptions is interrupted until it ends, and is then not abandoned."""
        ranks = ScriptedRanks(1, [])
        ranks.takes = 3
        ranks.leaves_when = ("interrupt",)
        self.assertEqual(self.run_on(ranks), [Status.TIMED_OUT])
        self.assertEqual(ranks.did, ["wake", *["interrupt"] * 4, "close"])
        self.assertEqual(self.outcomes[0].note, "")

    def test_busy_machine(self) -> None:
        """Where each wait takes longer than it should, a rank is interrupted as often nevertheless."""
        ranks = ScriptedRanks(1, [])
        ranks.leaves_when = ()
        ranks.late_s = TERM_WAIT_S
        self.assertEqual(self.run_on(ranks), [Status.TIMED_OUT])
        self.assertEqual(ranks.did.count("interrupt"), LEAST_INTERRUPTIONS)
        self.assertEqual(self.outcomes[0].note, ABANDONED)

    def test_late_words_do_not_count(self) -> None:
        """What a rank reports about its own ending is not its outcome."""
        ranks = ScriptedRanks(1, [*[None] * 3])
        ranks.leaves_when = ("interrupt",)
        supervisor = ThreadSupervisor(
            cast(RankThreads, ranks), LIMITS, -LIMITS.timeout_s, clock=lambda: ranks.now
        )
        ranks.script = [None, said(0, Status.ERROR), ThreadEnded(0)]
        self.assertEqual([o.status for o in supervisor.run().outcomes], [Status.TIMED_OUT])

    def test_late_calls_do_not_count(self) -> None:
        """What a rank calls once it is woken is not what it was in at the deadline: nothing."""
        ranks = ScriptedRanks(1, [*[None] * 3])

        def call(wake: Callable[[], None] = ranks.wake) -> None:
            log = CallLog(ranks.threads[0].calls)
            log.begin(log.text(Signature("all_reduce", "0")), 0, 1)
            wake()

        with mock.patch.object(ranks, "wake", call):
            self.assertEqual(self.run_on(ranks), [Status.TIMED_OUT])
        self.assertIn("wake", ranks.did)
        self.assertEqual(self.outcomes[0].calls, ())

    def test_sub_test_of_a_rank_that_is_ended(self) -> None:
        """A failed sub-test ends no rank, but is the cause if it came before a peer's error."""
        subtest = SubtestOutcome(None, (("n", "1"),), Status.FAILED)
        ranks = ScriptedRanks(2, [SubtestFailed(1, subtest), *[None] * 50, said(0, Status.ERROR)])
        self.assertEqual(self.run_on(ranks), [Status.ERROR, Status.ENDED])
        self.assertEqual([o.subtests for o in self.outcomes], [(), (subtest,)])
        self.assertEqual(merge(self.outcomes).root_cause, 1)

    def test_stays_after_its_report(self) -> None:
        """A rank that passed and does not leave has timed out in the phase "exit"."""
        ranks = ScriptedRanks(1, [said(0, Status.PASSED)])
        ranks.leaves_when = ("wake",)
        self.assertEqual(self.run_on(ranks), [Status.TIMED_OUT])
        self.assertEqual(self.outcomes[0].phase, "exit")

    def test_announced_exit(self) -> None:
        """An exit that the test announced is no failure, so that no rank is ended for it."""
        script = [said(0, Status.CRASHED, 7), *[None] * 50, said(1, Status.PASSED)]
        ranks = ScriptedRanks(2, script)
        self.run_on(ranks, MergeRules(expected_exit=7))
        self.assertEqual(ranks.did, ["release", "close"])
        self.assertEqual(self.outcomes[1].status, Status.PASSED)

    def test_interrupted(self) -> None:
        """Ctrl-C in the parent interrupts the ranks and is passed on."""
        ranks = ScriptedRanks(2, [KeyboardInterrupt()])
        with self.assertRaises(KeyboardInterrupt):
            self.run_on(ranks)
        self.assertEqual(ranks.did, ["interrupt all"])


if __name__ == "__main__":
    unittest.main()
