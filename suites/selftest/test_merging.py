"""Tests how outcomes of ranks merge into one verdict: the table of statuses row by row, and the order."""

from __future__ import annotations

import itertools
import unittest
from dataclasses import replace

from harness.calls import Call, Kind, Signature
from harness.communication.checks import Check, Finding
from harness.merging import MergeRules, merge, skip_reason, with_communication
from harness.outcomes import (
    ErrorInfo,
    RankOutcome,
    Status,
    SubtestOutcome,
    describe,
    lost_a_peer,
)

ASSERTION = ErrorInfo("AssertionError", "1 != 2", "trace of an assertion", is_assertion=True)
VALUE = ErrorInfo("ValueError", "no such value", "trace of a value error")
CLOSED = ErrorInfo("RuntimeError", "[gloo] Connection closed by peer [::1]:1234", "trace of gloo")
# Each status as a rank would report it.
ERRORS = {Status.FAILED: ASSERTION, Status.ERROR: VALUE}


def rank(number: int, status: Status, order: int | None = None, **fields: object) -> RankOutcome:
    """An outcome with an error that fits its status; received in the order of the ranks unless said."""
    base = RankOutcome(number, status, error=ERRORS.get(status), order=number if order is None else order)
    return replace(base, **fields)  # type: ignore[arg-type]  # the fields of RankOutcome


def ranks(*statuses: Status) -> list[RankOutcome]:
    """Ranks 0, 1, ... with these statuses, received in that order."""
    return [rank(number, status) for number, status in enumerate(statuses)]


def subtest(n: int, status: Status) -> SubtestOutcome:
    """Returns the outcome of a sub-test with the parameter ``n``."""
    return SubtestOutcome(None, (("n", str(n)),), status, ERRORS.get(status))


P, S, F, E = Status.PASSED, Status.SKIPPED, Status.FAILED, Status.ERROR
C, T, X = Status.CRASHED, Status.TIMED_OUT, Status.ENDED

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
        """By the words of gloo, NCCL and the operating system, in any case of letters."""
        for message in (
            "Connection closed by peer",
            "connectFullMesh failed",
            "Broken pipe",
            "Socket Timeout",
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


class SubtestMergeTest(unittest.TestCase):
    """Sub-tests of several ranks."""

    def test_same_on_all_ranks(self) -> None:
        """One entry, all ranks."""
        outcome = merge([rank(n, F, error=None, subtests=(subtest(1, F),)) for n in range(2)])
        self.assertEqual(
            [(m.subtest.key, m.ranks) for m in outcome.subtests], [((None, (("n", "1"),)), (0, 1))]
        )
        self.assertEqual((outcome.status, outcome.reason), (F, "rank 0: 1 sub-test failed"))

    def test_worst_counts(self) -> None:
        """Passed on rank 0, failed on 1, error on 2: an error of rank 2."""
        outcome = merge([rank(n, P, subtests=(subtest(0, s),)) for n, s in enumerate((P, F, E))])
        (merged,) = outcome.subtests
        self.assertEqual((merged.subtest.status, merged.ranks), (E, (2,)))

    def test_divergent_skip(self) -> None:
        """A sub-test that some ranks skip and others do not is an error, whatever those came to."""
        for others, cause in ((P, 0), (F, 1), (E, 1)):
            outcome = merge(
                [rank(0, P, subtests=(subtest(0, S),)), rank(1, P, subtests=(subtest(0, others),))]
            )
            self.assertEqual((outcome.status, outcome.root_cause), (E, cause))
            words = (
                f"divergent skip: rank 0 skipped (no reason given), rank 1 did not (rank 1 {others.value})"
            )
            self.assertEqual(outcome.reason, f"sub-test (n=0): {words}; a real job would deadlock here")
            (merged,) = outcome.subtests
            self.assertEqual((merged.subtest.status, merged.ranks), (E, (0, 1)))
            assert merged.subtest.error is not None
            self.assertIn(words, merged.subtest.error.traceback)
            if others is not P:
                self.assertIn(ERRORS[others].traceback, merged.subtest.error.traceback)

    def test_sub_tests_of_some_ranks(self) -> None:
        """A sub-test that others do not have diverges from nothing: parameters often contain the rank."""
        outcome = merge([rank(n, P, subtests=(subtest(n, s),)) for n, s in enumerate((P, S))])
        self.assertEqual((outcome.status, [m.divergence for m in outcome.subtests]), (P, ["", ""]))

    def test_the_same_twice(self) -> None:
        """Sub-tests with the same key on one rank stay two; they diverge only where ranks have as many."""

        def status_of(*by_rank: tuple[Status, ...]) -> tuple[Status, list[Status]]:
            made = [tuple(subtest(0, s) for s in statuses) for statuses in by_rank]
            outcome = merge([rank(n, P, subtests=own) for n, own in enumerate(made)])
            return outcome.status, [m.subtest.status for m in outcome.subtests]

        self.assertEqual(status_of((F, P), (F, P)), (F, [F, P]))
        self.assertEqual(status_of((P, S), (P, S)), (P, [P, S]))
        self.assertEqual(status_of((S, P), (P, S)), (E, [E, E]))
        self.assertEqual(status_of((P, S), (S,)), (P, [S, S]))

    def test_order_of_appearance(self) -> None:
        """By rank, then as each rank ran them."""
        outcome = merge(
            [rank(0, P, subtests=(subtest(2, P), subtest(1, P))), rank(1, P, subtests=(subtest(3, P),))]
        )
        self.assertEqual([m.subtest.params[0][1] for m in outcome.subtests], ["2", "1", "3"])

    def test_failure_and_error(self) -> None:
        """Any error makes it an error, only failures make it a failure."""
        failing = merge([rank(0, F, error=None, subtests=(subtest(0, F), subtest(1, F)))])
        mixed = merge([rank(0, E, error=None, subtests=(subtest(0, F), subtest(1, E)))])
        self.assertEqual((failing.status, mixed.status), (F, E))
        self.assertEqual(failing.reason, "rank 0: 2 sub-tests failed")

    def test_passed_rank_with_a_bad_subtest(self) -> None:
        """Does not pass the test, whatever the rank calls itself."""
        self.assertEqual(merge([rank(0, P, subtests=(subtest(0, F),))]).status, F)


class CommunicationTest(unittest.TestCase):
    """What ranks' communication adds to the verdict."""

    def waits(self, number: int, status: Status = Status.DEADLOCKED) -> RankOutcome:
        """A rank that waits in the barrier of ranks 0 and 1."""
        call = Call(Signature("barrier", "0", members=(0, 1), default=True), 1, 1, 1.0, 1.0)
        return rank(number, status, calls=(call,))

    def reduces(self, number: int, op: str, status: Status = P) -> RankOutcome:
        """A rank that has reduced by an operation."""
        signature = Signature("all_reduce", "0", members=(0, 1, 2), default=True, reduce_op=op)
        return rank(number, status, calls=(Call(signature, 1, 1, 1.0, 1.0, 2.0),))

    def test_who_left(self) -> None:
        """A rank that passed may be the cause of a deadlock, and of a hang."""
        for status in (Status.DEADLOCKED, Status.TIMED_OUT):
            merged = merge([rank(0, P), self.waits(1, status)])
            self.assertEqual((merged.status, merged.root_cause), (status, 0))
            self.assertEqual(merged.reason, "rank 0 left the test; rank 1 waits in barrier #1")

    def test_elsewhere(self) -> None:
        """A rank that others wait for is told by where it is."""
        stack = 'Thread 0x1 (most recent call first):\n  File "/home/me/t.py", line 7 in spin\n'
        merged = merge([rank(0, T, stack=stack), self.waits(1, T)])
        self.assertEqual(merged.root_cause, 0)
        self.assertIn("rank 0 never came to barrier #1: it is at t.py:7 in spin", merged.reason)

    def test_an_error_comes_before(self) -> None:
        """A rank that has said why it failed is the cause, whoever waits for it."""
        merged = merge([self.waits(0), rank(1, E, order=5)])
        self.assertEqual((merged.status, merged.root_cause), (E, 1))

    def test_a_refused_message(self) -> None:
        """A rank whose message was refused tells of its own error, since no peer can have been the reason."""
        message = Signature("recv", "0", Kind.RECEIVE, (0, 1), peer=1)
        refused = Call(message, started_s=1.0, ended_s=1.0, raised=True, refused=True)
        merged = merge([rank(0, E, calls=(refused,)), rank(1, P)])
        self.assertEqual((merged.status, merged.root_cause), (E, 0))
        self.assertTrue(merged.reason.startswith("rank 0 raised"), merged.reason)

    def test_a_skip_beside_those_that_wait(self) -> None:
        """What the ranks wait in that were ended for the skip of another one."""
        barrier = Signature("barrier", "0", members=(0, 1, 2), default=True)
        waits = Call(barrier, started_s=1.0, waiting_s=1.0, place="t.py:5 in test_x")
        merged = merge([rank(0, S), *(rank(number, X, calls=(waits,)) for number in (1, 2))])
        self.assertIn(
            "(ranks 1, 2 wait in barrier #1 of the default group (t.py:5 in test_x))", merged.reason
        )

    def test_the_rank_that_differs(self) -> None:
        """A crash in a call in which another rank differs is that rank's."""
        sizes = [Signature("all_reduce", "0", members=(0, 1, 2), agreed=str(r == 1)) for r in range(3)]
        calls = [Call(signature, 1, 1, 1.0, 1.0) for signature in sizes]
        merged = merge([rank(2, C, calls=(calls[2],)), *(rank(r, X, calls=(calls[r],)) for r in (0, 1))])
        self.assertEqual((merged.status, merged.root_cause), (C, 1))
        self.assertIn("; rank 2 crashed", merged.reason)

    def test_levels(self) -> None:
        """Arguments that differ are an error, a warning or nothing, by level; other faults warnings."""
        differing = merge([self.reduces(0, "SUM"), self.reduces(1, "SUM"), self.reduces(2, "MAX")])
        rows = ((None, E, 0), ("error", E, 0), ("warn", P, 1), ("off", P, 0))
        for level, status, lines in rows:
            with self.subTest(level=level):
                found = with_communication(differing, level)
                self.assertEqual((found.status, len(found.communication)), (status, lines))
                self.assertEqual(found.root_cause, 2 if status is E else None)
        handle = replace(
            self.reduces(0, "SUM").calls[0], own_work=True, waiting_s=None, ended_s=None, place="t"
        )
        unwaited = merge([rank(0, P, calls=(handle,)), rank(1, P)])
        for level, status in ((None, P), ("warn", P), ("error", E), ("off", P)):
            self.assertEqual(with_communication(unwaited, level).status, status, level)

    def test_values(self) -> None:
        """Under "values" wrong numbers are the only errors; of a test that failed they are told beside it."""
        wrong = Finding(Check.VALUES, "rank 2 got 5.0", (2,))
        remark = Finding(Check.REPLICAS, "rank 1 got 5.1", (1,))
        differing = [self.reduces(0, "SUM"), self.reduces(1, "SUM"), self.reduces(2, "MAX")]
        found = with_communication(merge(differing), "values", [wrong, remark])
        self.assertEqual((found.status, found.root_cause, found.reason), (E, 2, "rank 2 got 5.0"))
        self.assertEqual(len(found.communication), 2)
        found = with_communication(merge(differing), "values", [remark])
        self.assertEqual((found.status, len(found.communication)), (P, 2))
        for status in (F, C, T):
            failed = merge([rank(0, status), rank(1, P)])
            found = with_communication(failed, "values", [wrong, remark])
            self.assertEqual((found.status, found.communication), (status, ("rank 2 got 5.0",)))

    def test_beside_a_failure(self) -> None:
        """Of a test that failed anyhow, arguments that differ are told beside the failure."""
        failed = merge([self.reduces(0, "SUM", F), self.reduces(1, "MAX"), self.reduces(2, "SUM")])
        found = with_communication(failed, None)
        self.assertEqual((found.status, found.root_cause), (F, 0))
        self.assertIn("rank 1 reduces with MAX", found.communication[0])


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
