"""Tests how known failures change verdicts, as a table."""

from __future__ import annotations

import unittest

from harness.conformance.known import judged, stale
from harness.outcomes import Status
from harness.record import TestRecord
from harness.targets import Known

TEST = "suites.c10d.test_x.Ranks.test_bool"
KNOWN = (Known("c10d.*bool", "no bool"), Known("c10d.test_y.*", "no y"))


class JudgedTest(unittest.TestCase):
    """The record of a test that has a known failure, or none."""

    def test_statuses(self) -> None:
        """Every failure is expected, a pass is not, and what says nothing about it stays."""
        for status, expected in (
            (Status.PASSED, Status.XPASSED),
            (Status.FAILED, Status.XFAILED),
            (Status.ERROR, Status.XFAILED),
            (Status.CRASHED, Status.XFAILED),
            (Status.TIMED_OUT, Status.XFAILED),
            (Status.DEADLOCKED, Status.XFAILED),
            (Status.SKIPPED, Status.SKIPPED),
            (Status.ENDED, Status.ENDED),
            (Status.XFAILED, Status.XFAILED),
            (Status.XPASSED, Status.XPASSED),
        ):
            with self.subTest(status):
                record = TestRecord(TEST, status, reason="rank 1 failed", extra={"fixtures_s": {}})
                found = judged(record, KNOWN)
                self.assertEqual(found.status, expected)
                if status is expected:
                    self.assertIs(found, record)
                else:
                    self.assertIn("no bool", found.reason)
                    known = {"why": "no bool", "status": status.value}
                    self.assertEqual(found.extra, {"fixtures_s": {}, "known": known})

    def test_reasons(self) -> None:
        """A known failure keeps what failed; a pass says what to do."""
        failed = judged(TestRecord(TEST, Status.FAILED, reason="rank 1 failed"), KNOWN)
        self.assertEqual(failed.reason, "known: no bool (failed: rank 1 failed)")
        self.assertTrue(failed.ok)
        passed = judged(TestRecord(TEST, Status.PASSED), KNOWN)
        self.assertRegex(passed.reason, r"^mended: .*take it out of the target's KNOWN")
        self.assertFalse(passed.ok)

    def test_other_test(self) -> None:
        """A test that no entry is about keeps its record."""
        record = TestRecord("suites.c10d.test_x.Ranks.test_float", Status.FAILED)
        self.assertIs(judged(record, KNOWN), record)
        self.assertIs(judged(record, ()), record)


class StaleTest(unittest.TestCase):
    """Entries that are about no test."""

    def test_line(self) -> None:
        """They are one line together."""
        self.assertEqual(stale(KNOWN, [TEST]), "KNOWN of the target names no test of this run: c10d.test_y.*")
        self.assertEqual(stale(KNOWN[:1], [TEST]), "")
        self.assertEqual(stale((), []), "")


if __name__ == "__main__":
    unittest.main()
