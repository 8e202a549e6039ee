"""Tests what is made of one rank's words, exit and silence, with the bytes that come on its channel."""

from __future__ import annotations

import itertools
import signal
import unittest
from typing import Any
from unittest import mock

from harness.communication import call_log
from harness.outcomes import ErrorInfo, RankOutcome, Status, SubtestOutcome
from harness.protocol import Release, Report, SubtestFailed, encode
from harness.rank_merging import DEFAULT_RULES, MergeRules
from harness.ranks.deadlines import EndReason
from harness.ranks.processes.channel import MOST_SUBTESTS
from harness.ranks.processes.observed_rank import DRAIN_READS, ObservedRank
from harness.ranks.processes.output import Output
from harness.wire import framed
from suites.selftest.ranks.processes.played import Played

FAILURE = ErrorInfo("AssertionError", "no", "trace", is_assertion=True)
SUBTEST = SubtestOutcome(None, (("n", "1"),), Status.FAILED, FAILURE)
STARTED_S = 100.0


class ObservedRankTest(unittest.TestCase):
    """Rank 0 of one, whose clock advances a second with each look at it."""

    def setUp(self) -> None:
        self.ranks = Played(1)
        self.addCleanup(self.ranks.close)
        self.places = itertools.count()
        self.rank = self.observed()

    def observed(self) -> ObservedRank:
        """The rank as it is before it has said anything."""
        clock = itertools.count(STARTED_S).__next__
        link = self.ranks.links[0]
        return ObservedRank(link, Output(), 1000, False, STARTED_S, clock, self.places.__next__)

    def says(self, status: Status, **fields: Any) -> None:
        """Takes a report of the rank."""
        self.rank.take(framed(encode(Report(RankOutcome(0, status, **fields)))))

    def test_what_no_rank_says(self) -> None:
        """A rank that says it is believed no more: it is bad, and crashed whatever it says afterwards."""
        good = framed(encode(Report(RankOutcome(0, Status.PASSED))))
        for name, said, why in (
            ("a report of another rank", encode(Report(RankOutcome(1, Status.FAILED))), "sent Report"),
            ("a sub-test of another rank", encode(SubtestFailed(1, SUBTEST)), "sent SubtestFailed"),
            ("a message of the parent", encode(Release()), "sent Release"),
            ("an end that its parent sees", encode(Report(RankOutcome(0, Status.TIMED_OUT))), "timed out"),
            ("no message", b"what", "no report"),
        ):
            with self.subTest(name):
                self.rank = self.observed()
                self.rank.take(framed(said) + good)
                self.assertIn(why, self.rank.protocol_error)
                self.assertFalse(self.rank.settled)
                self.assertTrue(self.rank.is_bad(DEFAULT_RULES))
                self.rank.exited(0, None, "")
                outcome = self.rank.outcome()
                self.assertEqual((outcome.status, outcome.note), (Status.CRASHED, self.rank.protocol_error))

    def test_too_many_messages(self) -> None:
        """As many failed sub-tests as a rank says at most and its report are taken; one more is an error."""
        said = framed(encode(SubtestFailed(0, SUBTEST)))
        self.rank.take(said * MOST_SUBTESTS)
        self.says(Status.FAILED, error=FAILURE)
        self.assertEqual((self.rank.protocol_error, self.rank.settled), ("", True))
        self.rank.take(said)
        self.assertIn(f"more than {MOST_SUBTESTS} failed sub-tests", self.rank.protocol_error)

    def test_first_report_counts(self) -> None:
        """A second report changes nothing."""
        self.says(Status.FAILED, error=FAILURE)
        self.says(Status.PASSED)
        self.rank.exited(10, 7, "")
        outcome = self.rank.outcome()
        self.assertEqual((outcome.status, outcome.exit_code, outcome.peak_memory), (Status.FAILED, 10, 7))

    def test_other_turn(self) -> None:
        """What is said of another test of a pooled rank than this one is passed over."""
        self.rank.turn = 2
        for turn in (1, 0, 3):
            self.rank.take(framed(encode(SubtestFailed(0, SUBTEST, turn))))
            self.rank.take(framed(encode(Report(RankOutcome(0, Status.FAILED, error=FAILURE), turn))))
        self.assertEqual((self.rank.protocol_error, self.rank.settled, self.rank.subtests), ("", False, []))
        self.rank.take(framed(encode(Report(RankOutcome(0, Status.PASSED), 2))))
        self.assertIs(self.rank.outcome().status, Status.PASSED)

    def test_place(self) -> None:
        """A rank has the place of its first word, which may be a failed sub-test; peers come after it."""
        other = self.observed()
        self.rank.take(framed(encode(SubtestFailed(0, SUBTEST))))
        other.take(framed(encode(Report(RankOutcome(0, Status.FAILED, error=FAILURE)))))
        self.says(Status.FAILED, subtests=(SUBTEST,))
        self.assertEqual([each.outcome().order for each in (self.rank, other)], [0, 1])

    def test_fixed(self) -> None:
        """What a rank says once its outcome is fixed is a note, and its failed sub-tests are ignored."""
        self.rank.fix(EndReason.TIMEOUT)
        self.assertTrue(self.rank.doomed)
        self.rank.take(framed(encode(SubtestFailed(0, SUBTEST))))
        self.says(Status.PASSED)
        self.rank.exited(0, None, "")
        self.assertFalse(self.rank.doomed)
        outcome = self.rank.outcome()
        self.assertEqual((outcome.status, outcome.subtests), (Status.TIMED_OUT, ()))
        self.assertEqual(outcome.note, "its report came too late: passed")

    def test_channel(self) -> None:
        """It is read to the end, or to what is no message, of which a part at the end is one."""
        self.assertTrue(self.rank.read_reports())
        self.ranks.says(0, Status.PASSED)
        self.assertTrue(self.rank.read_reports())
        self.assertTrue(self.rank.settled)
        self.ranks.hangs_up(0)
        self.assertFalse(self.rank.read_reports())

    def test_part_of_a_message(self) -> None:
        """A rank that dies while it reports has crashed, and the note says how far it came."""
        self.rank.take(framed(encode(Report(RankOutcome(0, Status.PASSED))))[:-1])
        self.rank.exited(0, None, "")
        outcome = self.rank.outcome()
        self.assertIs(outcome.status, Status.CRASHED)
        self.assertIn("a part of a message", outcome.note)

    def test_bad(self) -> None:
        """When peers need not go on; a rank that called sys.exit may still exit as the test announced."""
        announced = MergeRules(expected_exit=3)
        for status, rules, code, bad in (
            (None, DEFAULT_RULES, None, False),
            (Status.PASSED, DEFAULT_RULES, None, False),
            (Status.SKIPPED, DEFAULT_RULES, None, False),
            (Status.FAILED, DEFAULT_RULES, None, True),
            (Status.FAILED, MergeRules(any_exit=True), None, True),
            (Status.CRASHED, DEFAULT_RULES, None, True),
            (Status.CRASHED, MergeRules(any_exit=True), 5, False),
            (Status.CRASHED, announced, None, False),
            (Status.CRASHED, announced, 3, False),
            (Status.CRASHED, announced, 4, True),
        ):
            with self.subTest(status=status, rules=rules, code=code):
                self.rank = self.observed()
                if status is not None:
                    self.says(status)
                if code is not None:
                    self.rank.exited(code, None, "")
                self.assertIs(self.rank.is_bad(rules), bad)
                self.rank.fix(EndReason.EXIT)
                self.assertFalse(self.rank.is_bad(rules), "the supervisor ends it, so it is no news")

    def test_without_a_report(self) -> None:
        """It crashed, or ended as the supervisor had it end; the note is what is known of why."""
        for name, why, deadlocked, status in (
            ("by itself", None, False, Status.CRASHED),
            ("at the deadline", EndReason.TIMEOUT, False, Status.TIMED_OUT),
            ("deadlocked", EndReason.DEADLOCK, True, Status.DEADLOCKED),
            ("with one that is", EndReason.DEADLOCK, False, Status.ENDED),
        ):
            with self.subTest(name):
                self.rank = self.observed()
                if why is not None:
                    self.rank.fix(why)
                self.rank.deadlocked = deadlocked
                self.rank.exited(-signal.SIGKILL, None, "the reason")
                outcome = self.rank.outcome()
                self.assertEqual((outcome.status, outcome.note), (status, "the reason"))

    def test_lost(self) -> None:
        """A rank that is gone with its host has no exit code, and the note says so."""
        self.rank.lose("its host is gone")
        outcome = self.rank.outcome()
        self.assertTrue(self.rank.gone)
        self.assertEqual((outcome.status, outcome.note), (Status.CRASHED, "its host is gone"))
        self.assertIsNone(outcome.exit_code)

    def test_how_long_it_took(self) -> None:
        """From when it began the test, or was started, to its end: no rank that hangs took no time."""
        for began_s, expected_s in ((None, 100.0), (90.0, 100.0), (101.5, 101.5)):
            with self.subTest(began_s=began_s):
                self.rank = self.observed()
                self.rank.clock = itertools.count(105.0).__next__
                head = call_log.Head(0, 0, began_s)
                with mock.patch.object(call_log, "read_head", lambda log, head=head: head):
                    self.rank.exited(1, None, "")
                outcome = self.rank.outcome()
                self.assertEqual((outcome.started_s, outcome.duration_s), (expected_s, 105.0 - expected_s))

    def test_drain(self) -> None:
        """The pipes are read empty; what prints for ever is not waited for."""
        self.ranks.prints(0, b"out")
        self.ranks.dumps(0, b"stack")
        self.rank.drain()
        self.assertEqual((self.rank.output.text(), bytes(self.rank.dump)), ("out", b"stack"))
        with mock.patch("harness.ranks.processes.observed_rank.read_available", return_value=b".") as read:
            self.rank.drain()
        self.assertEqual(read.call_count, 2 * DRAIN_READS)


if __name__ == "__main__":
    unittest.main()
