"""Tests how outcomes of ranks merge into one verdict: the table of statuses row by row, and the order."""

from __future__ import annotations

import itertools
import unittest

from harness.communication_call import Call, Signature
from harness.outcomes import (
    ErrorInfo,
    Status,
    SubtestOutcome,
    describe,
    lost_a_peer,
)
from harness.rank_merging import MergeRules, merge, skip_reason
from suites.selftest.outcomes_of_ranks import (
    CLOSED,
    C,
    E,
    F,
    P,
    S,
    T,
    X,
    rank,
    ranks,
    subtest,
)

# Statuses by rank -> the test's status, its root cause.
TABLE: list[tuple[tuple[Status, ...], Status, int | None]] = [
    ((P,), P, None),
    ((P, P, P), P, None),
    ((S, S), S, None),
    ((S, P), E, 0),
    ((P, S, P), E, 1),
    ((S, F), E, 1),
    ((S, X), E, 0),
    ((S, C), E, 1),
    ((P, F), F, 1),
    ((F, F), F, 0),
    ((F, E), E, 0),
    ((E, F), E, 0),
    ((P, E), E, 1),
    ((P, C), C, 1),
    ((C, F), C, 0),
    ((F, C), C, 0),
    ((E, C, F), C, 0),
    ((X, F, X), F, 1),
    ((X, C, X), C, 1),
    ((T, T), T, 0),
    ((T, F), F, 1),
    ((T, C), C, 1),
    ((P, T), T, 1),
    ((P, X), E, None),
    ((X, X), E, None),
]


class MergeTableTest(unittest.TestCase):
    """Statuses of ranks to the status and root cause of the test."""

    def test_table(self) -> None:
        """Each row, in the order of receipt."""
        for statuses, status, root in TABLE:
            with self.subTest(statuses=[s.value for s in statuses]):
                outcome = merge(ranks(*statuses))
                self.assertEqual((outcome.status, outcome.root_cause), (status, root))

    def test_none(self) -> None:
        """Absence is never a pass."""
        with self.assertRaisesRegex(ValueError, "at least one rank"):
            merge([])

    def test_only_all_passed_passes(self) -> None:
        """Over all combinations of three ranks: a pass needs three, a skip needs three."""
        every = (P, S, F, E, C, T, X)
        for statuses in itertools.product(every, repeat=3):
            status = merge(ranks(*statuses)).status
            self.assertEqual(status is P, set(statuses) == {P}, statuses)
            self.assertEqual(status is S, set(statuses) == {S}, statuses)

    def test_the_kind_does_not_depend_on_who_was_quicker(self) -> None:
        """Over all combinations of three ranks, in every order of receipt."""
        for statuses in itertools.product((P, S, F, E, C, T, X), repeat=3):
            kinds = {
                merge([rank(r, s, order=o) for r, s, o in zip(range(3), statuses, order, strict=True)]).status
                for order in itertools.permutations(range(3))
            }
            self.assertEqual(len(kinds), 1, statuses)

    def test_a_lost_peer_changes_no_kind(self) -> None:
        """The error of a rank whose peer has gone is no error of its own, in any order of receipt."""
        for order in ((0, 1), (1, 0)):
            outcomes = [rank(0, F, order=order[0]), rank(1, E, order=order[1], error=CLOSED)]
            self.assertEqual(merge(outcomes).status, F)

    def test_collateral_is_never_the_cause(self) -> None:
        """Nor is a rank that passed."""
        for statuses in itertools.product((P, S, F, E, C, T, X), repeat=3):
            outcome = merge(ranks(*statuses))
            if outcome.root_cause is not None:
                self.assertNotIn(outcome.rank(outcome.root_cause).status, (P, X), statuses)

    def test_order_of_the_argument_is_nothing(self) -> None:
        """Only the order of receipt is."""
        given_ranks = [rank(0, F, order=2), rank(1, E, order=1), rank(2, P, order=0)]
        for permutation in itertools.permutations(given_ranks):
            outcome = merge(permutation)
            self.assertEqual((outcome.status, outcome.root_cause), (E, 1))
            self.assertEqual([o.rank for o in outcome.ranks], [0, 1, 2])

    def test_duration(self) -> None:
        """That of the longest rank."""
        self.assertEqual(merge([rank(0, P, duration_s=1.0), rank(1, P, duration_s=3.0)]).duration_s, 3.0)


class RootCauseTest(unittest.TestCase):
    """The rank that broke first."""

    def test_first_received(self) -> None:
        """Not the lowest number."""
        outcome = merge([rank(0, F, order=1), rank(1, F, order=0)])
        self.assertEqual(outcome.root_cause, 1)

    def test_crash_before_those_who_noticed(self) -> None:
        """A closed connection that was heard of first is a consequence."""
        noticed = rank(0, E, order=0, error=CLOSED)
        outcome = merge([noticed, rank(1, C, order=1, exit_code=-11)])
        self.assertEqual((outcome.status, outcome.root_cause), (C, 1))
        self.assertIn("SIGSEGV", outcome.reason)

    def test_noticing_a_failure(self) -> None:
        """A rank that gives up its connections as it fails is noticed before it has reported."""
        outcome = merge([rank(0, E, order=0, error=CLOSED), rank(1, F, order=1)])
        self.assertEqual((outcome.status, outcome.root_cause), (F, 1))

    def test_noticing_alone(self) -> None:
        """Where nobody has another error, the first to notice is the cause; a late rank explains nothing."""
        self.assertEqual(merge([rank(0, E, order=0, error=CLOSED), rank(1, P)]).root_cause, 0)
        self.assertEqual(merge([rank(0, E, order=0, error=CLOSED), rank(1, T, order=1)]).root_cause, 0)

    def test_honest_error_before_a_crash(self) -> None:
        """An error of another kind, received before the crash, stays the cause."""
        outcome = merge([rank(0, E, order=0), rank(1, C, order=1)])
        self.assertEqual(outcome.root_cause, 0)

    def test_time_out_comes_last(self) -> None:
        """Who says why goes before who only was late."""
        outcome = merge([rank(0, T, order=0), rank(1, E, order=1)])
        self.assertEqual(outcome.root_cause, 1)

    def test_waiting_comes_after_hanging(self) -> None:
        """Of ranks that only were late, one that waits in a collective is not the cause of another's hang."""
        ended = Call(Signature("all_reduce", "0"), 1, 1, 1.0, ended_s=2.0)
        begun = Call(Signature("all_reduce", "0"), 2, 2, 3.0)
        waits = rank(0, T, order=0, calls=(ended, begun))
        self.assertEqual(merge([waits, rank(1, T, order=1, calls=(ended,))]).root_cause, 1)
        self.assertEqual(merge([waits, rank(1, T, order=1, calls=(begun,))]).root_cause, 0)

    def test_late_after_a_sub_test_failed(self) -> None:
        """That rank has said why; all the same it did not come back in time."""
        outcome = merge([rank(0, T, order=0), rank(1, T, order=1, subtests=(subtest(0, F),))])
        self.assertEqual((outcome.status, outcome.root_cause), (T, 1))
        self.assertEqual(outcome.reason, "rank 1 timed out after 1 sub-test had failed")
        self.assertTrue(outcome.rank(1).bad_beyond_subtests)

    def test_ended_after_a_sub_test_failed(self) -> None:
        """The sub-test is no collateral, and came before what a peer raised."""
        outcome = merge([rank(0, E, order=1), rank(1, X, order=0, subtests=(subtest(0, F),))])
        self.assertEqual((outcome.status, outcome.root_cause), (E, 1))
        self.assertFalse(outcome.rank(1).bad_beyond_subtests)

    def test_noticing_in_sub_tests(self) -> None:
        """A rank has only noticed where all that it says is that it did; one honest failure is enough."""
        noticed = SubtestOutcome(None, (), E, CLOSED)
        crash = rank(1, C, order=1)
        self.assertEqual(merge([rank(0, E, order=0, error=None, subtests=(noticed,)), crash]).root_cause, 1)
        both = rank(0, E, order=0, error=CLOSED, subtests=(subtest(0, F),))
        self.assertEqual(merge([both, crash]).root_cause, 0)

    def test_expected_failure_comes_last(self) -> None:
        """What ``expectedFailure`` expects is the cause only where nothing else went wrong."""
        expected = rank(0, F, order=0, expected=True)
        for other, status in (
            (rank(1, C, order=1), C),
            (rank(1, T, order=1), T),
            (rank(1, E, order=1, error=CLOSED), E),
            (rank(1, F, order=1, expected=True, phase="exit"), F),
            (rank(1, F, order=1, expected=True, subtests=(subtest(0, F),)), F),
            (rank(1, P, order=1, subtests=(subtest(0, E),)), E),
        ):
            with self.subTest(other):
                outcome = merge([expected, other])
                self.assertEqual((outcome.status, outcome.root_cause), (status, 1))
                self.assertEqual(outcome.reason, describe(other))
        for other in (rank(1, E, order=1, expected=True), rank(1, P), rank(1, X)):
            with self.subTest(other):
                outcome = merge([expected, other])
                self.assertEqual((outcome.status, outcome.root_cause), (F, 0))

    def test_a_rank_that_awaits_its_turn_comes_last(self) -> None:
        """Of rank threads that timed out, the one that ran is the cause, not those that it kept from it."""
        outcome = merge([rank(0, T, order=0, phase="turn"), rank(1, T, order=1)])
        self.assertEqual((outcome.status, outcome.root_cause), (T, 1))

    def test_lost_a_peer(self) -> None:
        """By the words of gloo, NCCL, tensorpipe and the operating system, in any case of letters."""
        for message in (
            "Connection closed by peer",
            "connectFullMesh failed",
            "Broken pipe",
            "Socket Timeout",
            "eof (this error originated at tensorpipe/transport/shm/connection_impl.cc:259)",
        ):
            self.assertTrue(lost_a_peer(ErrorInfo("RuntimeError", message, "")), message)
        for message in ("1 != 2", "peer pressure", ""):
            self.assertFalse(lost_a_peer(ErrorInfo("RuntimeError", message, "")), message)
        self.assertFalse(lost_a_peer(None))


class SkipTest(unittest.TestCase):
    """What a skip's reason says."""

    def test_one_reason(self) -> None:
        """A reason that all ranks share is the test's reason."""
        self.assertEqual(merge([rank(n, S, skip_reason="no GPU") for n in range(3)]).reason, "no GPU")

    def test_several_reasons(self) -> None:
        """Different reasons are told rank by rank."""
        reasons = ["a", "b", "a"]
        outcome = merge([rank(n, S, skip_reason=r) for n, r in enumerate(reasons)])
        self.assertEqual(outcome.reason, "ranks 0, 2: a; rank 1: b")

    def test_no_reason(self) -> None:
        """Said to be none."""
        self.assertEqual(merge([rank(0, S)]).reason, "no reason given")

    def test_beside_a_failure(self) -> None:
        """A rank that failed and skipped has done both: it does not diverge from those that skipped."""
        failed = rank(0, F, skip_reason="no GPU", error=None, subtests=(subtest(0, F),))
        outcome = merge([failed, rank(1, S, skip_reason="no GPU")])
        self.assertEqual((outcome.status, outcome.root_cause), (F, 0))
        self.assertEqual(skip_reason(outcome.ranks), "no GPU")
        outcome = merge([failed, rank(1, P)])
        self.assertEqual((outcome.status, outcome.root_cause), (E, 0))
        self.assertIn("divergent skip: rank 0 skipped", outcome.reason)

    def test_divergence(self) -> None:
        """Names both sides, what the others came to, and why that is an error."""
        reason = merge([rank(0, S, skip_reason="no GPU"), rank(1, P), rank(2, X)]).reason
        self.assertEqual(
            reason,
            "divergent skip: rank 0 skipped (no GPU), ranks 1, 2 did not (rank 1 passed; rank 2 ended); "
            "a real job would deadlock here",
        )
        failed = [rank(n, F, error=None, subtests=(subtest(0, F),)) for n in (1, 2)]
        self.assertIn(
            "ranks 1, 2 did not (ranks 1, 2: 1 sub-test failed)", merge([rank(0, S), *failed]).reason
        )


class RulesTest(unittest.TestCase):
    """The rules of upstream's return-code checks."""

    def codes(self, rules: MergeRules, *codes: int) -> Status:
        """The status where ranks ended with these codes and without an outcome; 0 stands for a pass."""
        return merge(
            [rank(n, C if code else P, exit_code=code) for n, code in enumerate(codes)], rules
        ).status

    def test_expected_exit(self) -> None:
        """Rank 0 must, the others may; any other code is a crash."""
        rules = MergeRules(expected_exit=3)
        self.assertEqual(self.codes(rules, 3, 3), P)
        self.assertEqual(self.codes(rules, 3, 0), P)
        self.assertEqual(self.codes(rules, 0, 0), E)
        self.assertEqual(self.codes(rules, 0, 3), E)
        self.assertEqual(self.codes(rules, 3, 4), C)
        self.assertEqual(self.codes(rules, 4, 3), C)

    def test_expected_signal(self) -> None:
        """A negative code is a signal."""
        self.assertEqual(self.codes(MergeRules(expected_exit=-6), -6, -6), P)

    def test_wrong_exit_is_told(self) -> None:
        """A wrong exit code is told with the expected one."""
        reason = merge([rank(0, P, exit_code=0)], MergeRules(expected_exit=-6)).reason
        self.assertEqual(reason, "rank 0 should have ended with signal SIGABRT, not exit code 0")

    def test_any_exit(self) -> None:
        """No end is wrong, but a reported failure is."""
        rules = MergeRules(any_exit=True)
        self.assertEqual(self.codes(rules, 3, -9), P)
        self.assertEqual(merge([rank(0, C, exit_code=1), rank(1, F)], rules).status, F)
        self.assertEqual(merge([rank(0, P), rank(1, T)], rules).status, T)


if __name__ == "__main__":
    unittest.main()
