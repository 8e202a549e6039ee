"""Tests that what a test leaves replaced in its process does not change its verdict, in any rank mode."""

from __future__ import annotations

import os
import unittest
from typing import Any

from harness import Status
from harness.ranks.processes import pool
from harness.system import originals
from suites.selftest.cases import dtensor_bodies
from suites.selftest.faults import patches
from suites.selftest.faults.rows import FaultRows, OnForkServer, OnSpawn, Played

SOME = ("functions", "builtins", "isinstance")


class PatchRows(FaultRows):
    """Base class of tests that play a case with each of several patches."""

    def own_verdicts(self, case: Any, *names: str, **environ: str) -> None:
        """Checks that tests pass and fail as they do by themselves, whichever of the patches they leave."""
        for name in names:
            with self.subTest(name):
                settings = {patches.PATCH: name, **environ}
                played = self.play(case, "test_passes", **settings)
                self.assertEqual(played.verdict, "pass", played.text)
                self.fails_itself(self.play(case, "test_fails", **settings))

    def fails_itself(self, played: Played) -> None:
        """Checks that a test failed by its own assertion."""
        self.assertEqual((played.verdict, played.outcome.status), ("FAIL", Status.FAILED), played.text)
        self.assertIn("AssertionError: the test's own", played.text)


class FreshTest(PatchRows, OnForkServer):
    """Fresh ranks, by the fork server."""

    def test_own_verdicts(self) -> None:
        """Nothing that a test leaves in its process changes its verdict."""
        self.own_verdicts(patches.Leaves, *(name for name in patches.PATCHES if name != "type"))

    def test_of_unittest(self) -> None:
        """Where unittest itself cannot go on, that is the test's error, and no crash of its rank."""
        played = self.play(patches.Leaves, "test_passes", **{patches.PATCH: "type"})
        self.check(played, "ERROR", Status.ERROR, "rank 1 raised", "patches.Refused")
        self.fails_itself(self.play(patches.Leaves, "test_fails", **{patches.PATCH: "type"}))

    def test_stopped_in_a_cleanup(self) -> None:
        """A patch that a cleanup stops holds until then, while the failure before it is noted."""
        self.fails_itself(self.play(patches.Leaves, "test_stops_late"))

    def test_of_set_up(self) -> None:
        """What ``setUp`` has replaced in the parent changes no verdict either."""
        self.own_verdicts(patches.SetUpPatches, "functions")


class SpawnedTest(PatchRows, OnSpawn):
    """Fresh ranks that are new interpreters."""

    def test_own_verdicts(self) -> None:
        """Nothing that a test leaves in its process changes its verdict."""
        self.own_verdicts(patches.Leaves, "functions", "builtins")


class PooledTest(PatchRows, OnForkServer):
    """Pooled ranks, which are replaced where a test leaves something."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(pool.retire_pool)

    def test_own_verdicts(self) -> None:
        """A failing test's verdict is its own; a passing one's has a warning, and its ranks are replaced."""
        self.own_verdicts(patches.Leaves, *SOME, "streams that refuse", HARNESS_RANKS="pooled")

    def test_named(self) -> None:
        """What a test leaves replaced is named, and the next test has new ranks."""
        settings = {patches.PATCH: "functions", "HARNESS_RANKS": "pooled"}
        played = self.play(patches.Leaves, "test_passes", **settings)
        (warning,) = [str(w.message) for w in played.warnings]
        self.assertIn("left changed in rank 1: json.dumps; ", warning)
        after = self.play(patches.Leaves, "test_leaves_nothing", **settings)
        self.assertEqual((after.verdict, after.warnings), ("pass", ()), after.text)
        self.assertNotEqual(after.rank(1).pid, played.rank(1).pid)

    def test_stopped_in_a_cleanup(self) -> None:
        """A patch that a cleanup stops is nothing that the test leaves."""
        played = self.play(patches.Leaves, "test_stops_late", HARNESS_RANKS="pooled")
        self.fails_itself(played)
        self.assertNotIn("left changed", played.text)


class ThreadsTest(PatchRows):
    """Ranks that are threads, of which the one that fails shares its process with this test."""

    def test_own_verdicts(self) -> None:
        """Nothing that a rank leaves in the process changes the verdict, or is there after the test."""
        before = originals.patched()  # on Python 3.10 by a backport of exception groups, where it is imported
        self.own_verdicts(patches.LeavesInThreads, *SOME, "environment", "streams forgotten", "modules")
        self.assertEqual(originals.patched(), before)
        self.assertIn("PATH", os.environ)

    def test_stopped_in_a_cleanup(self) -> None:
        """A patch that a cleanup stops holds until then."""
        case: Any = patches.LeavesInThreads  # no process, but played in the same way
        self.fails_itself(self.play(case, "test_stops_late"))


class LocalTest(PatchRows, OnForkServer):
    """Ranks that one process simulates."""

    def test_own_verdicts(self) -> None:
        """Nothing that a test leaves in its process changes its verdict."""
        self.addCleanup(pool.retire_pool)
        self.own_verdicts(dtensor_bodies.LeavesLocally, *SOME)


if __name__ == "__main__":
    unittest.main()
