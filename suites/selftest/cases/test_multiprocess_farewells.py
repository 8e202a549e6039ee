"""Tests that faults after the test, and faults that are not the test's, are not confused."""

from __future__ import annotations

import unittest

from harness import Status
from suites.selftest.faults import farewells
from suites.selftest.faults.base import ANNOUNCE
from suites.selftest.faults.processes import Announced, still_there
from suites.selftest.faults.rows import IMPATIENT, FaultRows, OnForkedInterpreters, OnForkServer

# Seconds for the kernel to end the ranks of a server that is gone.
GONE_S = 30.0


class FarewellRows(FaultRows):
    """Ranks that have already reported how their test went."""

    def test_skip_then_exception(self) -> None:
        played = self.play(farewells.SkipsThenRaises, "test_skips")
        self.check(played, "ERROR", Status.ERROR, "after the skip", "divergent skip")

    def test_pass_then_crash(self) -> None:
        played = self.play(farewells.DiesAfterwards, "test_passes")
        self.check(played, "ERROR", Status.CRASHED, "SIGSEGV", "after its test had passed")

    def test_skip_then_crash(self) -> None:
        played = self.play(farewells.DiesAfterwards, "test_skips")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("SIGSEGV", played.text)

    def test_slow_leave_is_no_crash(self) -> None:
        """A rank that the supervisor ends at exit is collateral, and it stays passed if it had passed."""
        played = self.play(farewells.LeavesSlowly, "test_rows", **IMPATIENT)
        self.check(played, "FAIL", Status.FAILED, "the real cause", collateral=(2,))
        self.assertEqual(played.rank(0).status, Status.PASSED)

    def test_lost_server_is_not_expected(self) -> None:
        with Announced(self.temporary) as announced:
            played = self.play(farewells.ExpectsToFail, "test_kills_server", **{ANNOUNCE: announced.path})
            self.assertEqual(played.verdict, "ERROR", played.text)
            self.assertIn("server", played.text)
            self.assertEqual(still_there(announced.read(2), GONE_S), [])

    def test_failure_is_expected(self) -> None:
        self.assertEqual(self.play(farewells.ExpectsToFail, "test_fails").verdict, "expected failure")


class FarewellsOnForkServer(FarewellRows, OnForkServer):
    """Runs the tests on the fork server."""


class FarewellsOnSpawn(FarewellRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


del FarewellRows, FaultRows, OnForkServer, OnForkedInterpreters

if __name__ == "__main__":
    unittest.main()
