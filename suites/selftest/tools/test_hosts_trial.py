"""Tests what a trial of runs over hosts says of what it has seen."""

from __future__ import annotations

import unittest

from harness.outcomes import Status
from harness.record import RankRecord, TestRecord
from tools.hosts_trial import Trial, differing, over_two, report, table


def record(name: str, *ranks: RankRecord, status: Status = Status.PASSED) -> TestRecord:
    """A test's record with these ranks."""
    return TestRecord(name, status, ranks=ranks)


def trial(name: str, *records: TestRecord) -> Trial:
    """A trial with these records."""
    return Trial(name, {each.id: each for each in records}, 1.0)


KILLED = (RankRecord(0, Status.ERROR, exit_code=10), RankRecord(1, Status.CRASHED, exit_code=-9))


class HostsTrialTest(unittest.TestCase):
    """``differing``, ``over_two`` and ``table``."""

    def test_differing(self) -> None:
        """A test differs by its status, by a rank's status or exit code, or where it did not run."""
        one = trial("one host", record("a", *KILLED, status=Status.CRASHED), record("b"))
        self.assertEqual(differing(one, trial("x", *one.records.values())), [])
        for name, other, says in (
            ("status", trial("x", record("a", *KILLED, status=Status.TIMED_OUT), record("b")), "timed out"),
            ("rank", trial("x", record("a", KILLED[0], status=Status.CRASHED), record("b")), "x: a: crashed"),
            ("absent", trial("x", record("a", *KILLED, status=Status.CRASHED)), "x: b: absent"),
        ):
            with self.subTest(name):
                (line,) = differing(one, other)
                self.assertIn(says, line)

    def test_asks_for_hosts(self) -> None:
        """A test that skips on one host because it asks for several is not compared."""
        skipped = TestRecord("a", Status.SKIPPED, reason="needs 2 hosts, found 1")
        self.assertEqual(differing(trial("one host", skipped), trial("x", record("a"))), [])
        other = TestRecord("a", Status.SKIPPED, reason="needs a cuda device")
        self.assertEqual(len(differing(trial("one host", other), trial("x", record("a")))), 1)

    def test_over_two(self) -> None:
        """Tests count whose ranks were on different hosts."""
        both = record("a", RankRecord(0, Status.PASSED, host="h0"), RankRecord(1, Status.PASSED, host="h1"))
        same = record("b", RankRecord(0, Status.PASSED, host="h0"), RankRecord(1, Status.PASSED, host="h0"))
        self.assertEqual(over_two(trial("x", both, same, record("c"))), 1)

    def test_no_test_ran(self) -> None:
        """A run without a test is one line and what it printed, however many tests there should have been."""
        one = trial("one host", record("a"), record("b"))
        nothing = Trial("x", {}, 1.0, ("sshd: root",), "command not found")
        said = report(one, nothing)
        self.assertEqual(said, "x: no test ran:\ncommand not found\nx: left running: sshd: root")

    def test_table(self) -> None:
        """Each run has a row, with how many of its tests are as on one host."""
        one = trial("one host", record("a"), record("b"))
        rows = table(one, [trial("x", record("a"), record("b", status=Status.FAILED))]).rows
        self.assertEqual([row[:3] for row in rows], [("one host", "2", "2"), ("x", "2", "1")])


if __name__ == "__main__":
    unittest.main()
