"""Tests that a rank which abuses a descriptor hurts itself alone: the table of ``faults/descriptors.py``."""

from __future__ import annotations

import re
import resource
import unittest
from collections import Counter

from harness import Status, timeout
from harness.ranks.processes.pool import retire_pool
from suites.selftest.faults import descriptors
from suites.selftest.faults.descriptors import ABUSE, ABUSES
from suites.selftest.faults.rows import IMPATIENT, FaultRows, OnForkServer, OnSpawn

# The most bytes by which this process may grow while a rank sends it all that it can.
GROWTH = 100 << 20


class AbuseRows(FaultRows):
    """Runs abuses on one launcher and in one rank mode."""

    ranks = "fresh"

    def check_abuse(self, name: str) -> None:
        """Checks the verdict of a row, which names rank 1 alone, and that the next test passes."""
        abuse = ABUSES[name]
        case = descriptors.HangingAbuses if abuse.hangs else descriptors.Abuses
        deadline = {"HARNESS_TIMEOUT": "0.5"} if abuse.hangs else {}
        modes = {"HARNESS_RANKS": self.ranks}
        played = self.play(case, "test_abuse", **{**IMPATIENT, **deadline, **modes, ABUSE: name})
        if abuse.words:
            self.assertIn(played.verdict, ("ERROR", "FAIL"), played.text)
            self.assertEqual(played.outcome.root_cause, 1, played.text)
        else:
            self.assertEqual(played.verdict, "pass", played.text)
        for word in abuse.words:
            self.assertIn(word, played.text)
        self.assertEqual(played.rank(0).status, Status.PASSED, played.text)
        after = self.play(descriptors.Abuses, "test_none", **modes)
        self.assertEqual(after.verdict, "pass", after.text)


class FreshAbuses(AbuseRows, OnForkServer):
    """Abuses by fresh ranks on the fork server."""

    @timeout(600)  # it is about seventy tests
    def test_abuses(self) -> None:
        """Every abuse has the verdict of its row, and the test after it passes."""
        for name in ABUSES:
            with self.subTest(name):
                self.check_abuse(name)

    def test_memory(self) -> None:
        """A rank that sends all that it can does not make its parent grow without limit."""
        self.check_abuse("closes its channel")  # what the first test of a process needs is no growth
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        for name in ("sends a message without end", "floods its output", "floods its stack pipe"):
            self.check_abuse(name)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before, GROWTH)


class PooledAbuses(AbuseRows, OnForkServer):
    """Abuses by pooled ranks on the fork server."""

    ranks = "pooled"

    @timeout(600)
    def test_abuses(self) -> None:
        """Every abuse after which rank 1 comes back has its row's verdict, and the test after it passes."""
        self.addCleanup(retire_pool)
        for name, abuse in ABUSES.items():
            # Of a fresh rank the exit code tells that its report was a lie.
            if not abuse.hangs and name != "reports a pass and fails":
                with self.subTest(name):
                    self.check_abuse(name)

    def test_report_of_the_test_before(self) -> None:
        """What a rank says of a test that has its verdict is not taken for the next test's report."""
        self.addCleanup(retire_pool)
        modes = {"HARNESS_RANKS": self.ranks}
        self.check_abuse("closes its log")  # so that the ranks are there
        ahead = {**modes, ABUSE: "reports a pass ahead of its end"}
        self.assertEqual(self.play(descriptors.Abuses, "test_abuse", **ahead).verdict, "pass")
        played = self.play(descriptors.Abuses, "test_failing", **modes)
        self.assertEqual(played.verdict, "FAIL", played.text)
        self.assertEqual(played.outcome.root_cause, 1, played.text)


class SpawnAbuses(AbuseRows, OnSpawn):
    """Abuses by new interpreters, whose descriptors go through an exec."""

    def test_abuses(self) -> None:
        """Abuses of each kind have the verdicts of their rows, and the tests after them pass."""
        for name in ("prints on its channel", "shrinks its log", "closes every descriptor"):
            with self.subTest(name):
                self.check_abuse(name)


class HeldRows(FaultRows):
    """What a rank holds at all."""

    def check_held(self, **more: int) -> None:
        """Checks that a rank holds its own descriptors and none of its parent, its server or other ranks."""
        for ranks in ("fresh", "pooled"):
            played = self.play(descriptors.Abuses, "test_held", HARNESS_RANKS=ranks)
            retire_pool()
            for rank in (0, 1):
                lines = [line[6:] for line in played.rank(rank).output.splitlines()]
                held = Counter(re.sub(rf"\.processes-\d+\.{rank} ", " ", line) for line in lines)
                held.pop("/dev/null")
                # Standard output and standard error, the pipe for stacks; the log and Python's mapping of it.
                own = {"pipe": 3, "socket": 1, "/memfd:harness-calls (deleted)": 2}
                with self.subTest(ranks=ranks, rank=rank):
                    self.assertEqual(held, own)


class HeldOnForkServer(HeldRows, OnForkServer):
    """Ranks that are forks of a fork of this process."""

    def test_held(self) -> None:
        """A rank holds its own descriptors only."""
        self.check_held()


class HeldOnSpawn(HeldRows, OnSpawn):
    """Ranks that are new interpreters."""

    def test_held(self) -> None:
        """A rank holds its own descriptors only."""
        self.check_held()


if __name__ == "__main__":
    unittest.main()
