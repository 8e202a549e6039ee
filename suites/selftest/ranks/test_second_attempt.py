"""Tests the second attempt of a test that failed on used ranks, on ranks that are played."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.errors import LaunchError
from harness.outcomes import RankOutcome, Status, TestOutcome
from harness.rank_merging import DEFAULT_RULES, MergeRules, merge
from harness.ranks.job import JobResult, RunningRanks
from harness.ranks.second_attempt import SecondAttempt, second_attempt, time_for_another

NO_TIME = "its deadline leaves no time to try it on fresh ranks, so earlier tests cannot be ruled out"


class TimeForAnotherTest(unittest.TestCase):
    """The time that is left for a second attempt at a test."""

    def test_table(self) -> None:
        """A second attempt ends within the first one's deadline, or is not made at all."""
        for timeout_s, elapsed_s, left_s in (
            (60.0, 1.0, 59.0),
            (60.0, 30.0, 30.0),
            (60.0, 31.0, None),
            (2.0, 2.1, None),
        ):
            with self.subTest(timeout_s=timeout_s, elapsed_s=elapsed_s):
                self.assertEqual(time_for_another(timeout_s, elapsed_s), left_s)


class Played:
    """Ranks that come to a given result; ``started`` has the deadline of each start."""

    processes: Sequence[Any] = ()

    def __init__(self, result: JobResult) -> None:
        self.result = result
        self.started: list[float] = []
        self.rules: MergeRules | None = None

    def start(self, timeout_s: float) -> RunningRanks:
        """Notes the deadline."""
        self.started.append(timeout_s)
        return self

    def join(self, rules: MergeRules) -> JobResult:
        """Notes the rules and returns the result."""
        self.rules = rules
        return self.result

    def close(self) -> None:
        """Has nothing to end."""

    def how_the_server_ended(self) -> str:
        """Has no server."""
        return "no server"


def ended(status: Status, **more: Any) -> JobResult:
    """Returns the result of one rank that ended with this status."""
    return JobResult((RankOutcome(0, status),), **more)


class SecondAttemptTest(unittest.TestCase):
    """``second_attempt`` after a first one that took a second of a minute."""

    def attempt(self, played: Played, *, rules: MergeRules = DEFAULT_RULES, **more: Any) -> SecondAttempt:
        """Returns what comes of an attempt on the played ranks."""
        return second_attempt(
            played.start, rules, where="on fresh ranks", **{"timeout_s": 60.0, "elapsed_s": 1.0, **more}
        )

    def test_outcome(self) -> None:
        """The outcome is the merged one of the new ranks, good or bad."""
        for status in (Status.PASSED, Status.FAILED, Status.SKIPPED, Status.CRASHED):
            with self.subTest(status=status):
                again = self.attempt(Played(ended(status)))
                assert again.outcome is not None
                self.assertEqual((again.outcome.status, again.why_not), (status, ""))
                self.assertEqual(again.result, ended(status))

    def test_rest_of_the_deadline(self) -> None:
        """The new ranks get what the first attempt has left of the deadline."""
        played = Played(ended(Status.PASSED))
        self.attempt(played, elapsed_s=20.0)
        self.assertEqual(played.started, [40.0])

    def test_no_time(self) -> None:
        """Nothing starts where the deadline leaves too little time, and a time-out says no more than that."""
        late = Played(ended(Status.PASSED))
        self.assertEqual(self.attempt(late, elapsed_s=31.0), SecondAttempt(why_not=NO_TIME))
        self.assertEqual(late.started, [])
        self.assertEqual(self.attempt(Played(ended(Status.TIMED_OUT))), SecondAttempt(why_not=NO_TIME))

    def test_cannot_start(self) -> None:
        """Ranks that cannot be started, or whose server dies, are the reason why there is no outcome."""

        def refuses(timeout_s: float) -> RunningRanks:
            raise LaunchError("no more processes")

        again = second_attempt(refuses, DEFAULT_RULES, where="anew", timeout_s=60.0, elapsed_s=1.0)
        self.assertEqual(again, SecondAttempt(why_not="it could not be tried anew: no more processes"))
        lost = self.attempt(Played(ended(Status.CRASHED, server_lost=True)))
        self.assertIsNone(lost.outcome)
        self.assertEqual(
            lost.why_not, "it could not be tried on fresh ranks: the server that starts ranks died"
        )

    def test_interrupted(self) -> None:
        """Ctrl-C is told, and leaves no outcome to go by."""
        again = self.attempt(Played(ended(Status.ENDED, interrupted=True)))
        self.assertTrue(again.interrupted)
        self.assertIsNone(again.outcome)
        self.assertFalse(self.attempt(Played(ended(Status.PASSED))).interrupted)
        self.assertFalse(SecondAttempt(why_not=NO_TIME).interrupted)

    def test_rules(self) -> None:
        """An end that the test announced is a pass, in the second attempt as in the first."""
        played = Played(JobResult((RankOutcome(0, Status.CRASHED, exit_code=3),)))
        again = self.attempt(played, rules=MergeRules(expected_exit=3))
        assert again.outcome is not None
        self.assertEqual(again.outcome.status, Status.PASSED)
        self.assertEqual(played.rules, MergeRules(expected_exit=3))

    def test_merged(self) -> None:
        """The class's own way from the ranks' outcomes to the test's counts."""

        def merged(outcomes: Sequence[RankOutcome]) -> TestOutcome:
            return merge([replace(outcome, status=Status.FAILED) for outcome in outcomes])

        again = self.attempt(Played(ended(Status.PASSED)), merged=merged)
        assert again.outcome is not None
        self.assertEqual(again.outcome.status, Status.FAILED)


if __name__ == "__main__":
    unittest.main()
