"""Tests which attempts a run still has to make."""

from __future__ import annotations

import unittest

from harness.configuration.override import Reruns
from harness.outcomes import Status
from harness.record import TestRecord
from harness.runner.scheduling.plan import Attempt, Plan, Policy


def record(test_id: str, status: Status = Status.PASSED, attempt: int = 1, repeat: int = 1) -> TestRecord:
    """Returns a record with the fields that a plan looks at."""
    return TestRecord(test_id, status, attempt=attempt, repeat=repeat)


class PlanTest(unittest.TestCase):
    """Rounds, reruns and resumed runs."""

    def test_rounds(self) -> None:
        """All tests run once, then all again, and then the plan ends."""
        plan = Plan(["a", "b"], Policy(repeats=2))
        self.assertEqual(plan.next_round(), (Attempt("a", 1), Attempt("b", 1)))
        self.assertEqual(plan.owed, 4)
        for repeat in (1, 2):
            for name in ("a", "b"):
                plan.take(record(name, repeat=repeat))
            if repeat == 1:
                self.assertEqual(plan.next_round(), (Attempt("a", 2), Attempt("b", 2)))
        self.assertEqual((plan.next_round(), plan.owed), ((), 0))

    def test_reruns_of_its_own(self) -> None:
        """A test for which the configuration says otherwise has its own number of attempts."""
        plan = Plan(["a", "b"], Policy(reruns=0, own={"a": Reruns(1, 2.0)}))
        self.assertEqual(plan.rerun(plan.take(record("a", Status.FAILED))), Attempt("a", 1, 2))
        self.assertIsNone(plan.rerun(plan.take(record("b", Status.FAILED))))
        self.assertIsNone(plan.rerun(plan.take(record("a", Status.FAILED, attempt=2))))
        self.assertEqual((plan.failed, plan.owed), (2, 0))

    def test_without_end(self) -> None:
        """Zero repeats go on for ever, unless there are no tests."""
        plan = Plan(["a"], Policy(repeats=0))
        self.assertEqual([plan.next_round()[0].repeat for _ in range(3)], [1, 2, 3])
        self.assertEqual(Plan([], Policy(repeats=0)).next_round(), ())

    def test_reruns(self) -> None:
        """A failure is attempted again until the attempts are used up, and a late pass is flaky."""
        plan = Plan(["a", "b"], Policy(reruns=1))
        first = plan.take(record("a", Status.CRASHED))
        self.assertEqual(plan.rerun(first), Attempt("a", 1, 2))
        again = plan.take(record("a", attempt=2))
        self.assertTrue(again.flaky)
        self.assertIsNone(plan.rerun(again))
        self.assertEqual(plan.failed, 0)
        plan.take(record("b", Status.FAILED))
        self.assertIsNone(plan.rerun(plan.take(record("b", Status.FAILED, attempt=2))))
        self.assertEqual(plan.failed, 1)

    def test_a_skip_after_a_failure_is_not_flaky(self) -> None:
        """A skip after a failure is not flaky, because only a pass takes a failure back."""
        plan = Plan(["a"], Policy(reruns=1))
        plan.take(record("a", Status.FAILED))
        self.assertFalse(plan.take(record("a", Status.SKIPPED, attempt=2)).flaky)

    def test_failfast(self) -> None:
        """failfast stops at a final failure and not at one that is attempted again."""
        plan = Plan(["a"], Policy(reruns=1, failfast=True))
        plan.take(record("a", Status.FAILED))
        self.assertFalse(plan.stop)
        plan.take(record("a", Status.FAILED, attempt=2))
        self.assertTrue(plan.stop)

    def test_failfast_resumed(self) -> None:
        """The failure that ended the run before does not stop a resumed one, but a further one does."""
        plan = Plan(["a", "b"], Policy(failfast=True), [record("a", Status.FAILED)])
        self.assertEqual(plan.next_round(), (Attempt("b"),))
        self.assertFalse(plan.stop)
        plan.take(record("b", Status.FAILED))
        self.assertTrue(plan.stop)

    def test_resume(self) -> None:
        """A resumed run omits what finished, and goes on with the attempt that was cut short."""
        earlier = [
            record("a"),
            record("b", Status.ENDED),
            record("c", Status.FAILED),
            record("gone", Status.FAILED),
        ]
        plan = Plan(["a", "b", "c", "d"], Policy(reruns=1), earlier)
        self.assertEqual(plan.owed, 3)
        self.assertEqual(plan.next_round(), (Attempt("b"), Attempt("c", 1, 2), Attempt("d")))
        self.assertEqual(plan.failed, 0)

    def test_owes(self) -> None:
        """A test still has to run until it has finished, or used its attempts, in each round."""
        earlier = [
            record("a"),
            record("a", repeat=2),
            record("b"),
            record("c", Status.FAILED),
            record("c", repeat=2),
        ]
        table = (
            (Policy(repeats=2), "bd"),
            (Policy(repeats=2, reruns=1), "bcd"),
            (Policy(), "d"),
            (Policy(repeats=0), "abcd"),
        )
        for policy, owed in table:
            with self.subTest(policy=policy):
                plan = Plan("abcd", policy, earlier)
                self.assertEqual([name for name in "abcd" if plan.owes(name)], list(owed))

    def test_resume_in_the_second_round(self) -> None:
        """A round that is done is passed over on resume."""
        plan = Plan(["a", "b"], Policy(repeats=2), [record("a"), record("b"), record("a", repeat=2)])
        self.assertEqual(plan.next_round(), (Attempt("b", 2),))


if __name__ == "__main__":
    unittest.main()
