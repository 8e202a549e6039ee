"""Runs the rows of faulty cases over two hosts: verdicts, causes and words are those of one host.

The hosts are this machine, with an agent each; each takes one rank of a test of two.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import unittest

from harness import Status
from harness.ranks.processes.pool import retire_pool
from suites.selftest.cases import (
    test_multiprocess_ends,
    test_multiprocess_exceptions,
    test_multiprocess_hangs,
    test_multiprocess_leftovers,
    test_multiprocess_verdicts,
)
from suites.selftest.faults import hosts, verdicts
from suites.selftest.faults.rows import FaultRows, Played, RankCase
from suites.selftest.hosts.loopback import Loopback

_undo = contextlib.ExitStack()
_loopback: list[Loopback] = []


def setUpModule() -> None:
    """Starts the hosts, and on each what stays from test to test: a session and its fork server."""
    _loopback.append(_undo.enter_context(Loopback()))
    _undo.callback(retire_pool)
    OnHosts("play").play(verdicts.Skips, "test_all_for_one_reason")


def tearDownModule() -> None:
    """Ends the hosts."""
    _undo.close()


class OnHosts(FaultRows):
    """Runs the faulty tests with each rank on another host."""

    def play(self, case: type[RankCase], method: str, **environ: str) -> Played:
        """Runs one test of a faulty case, as ``FaultRows`` does, over the hosts."""
        where = {**_loopback[0].environ, "HARNESS_PLACEMENT": "spread"}
        return super().play(case, method, **{**where, **environ})


class SkipTestOnHosts(test_multiprocess_verdicts.SkipRows, OnHosts):
    """Tests of which some or all ranks skip."""


class CleanupTestOnHosts(test_multiprocess_verdicts.CleanupRows, OnHosts):
    """Cleanups that fail."""


class SubtestTestOnHosts(test_multiprocess_verdicts.SubtestRows, OnHosts):
    """Sub-tests that fail."""


class ExpectedTestOnHosts(test_multiprocess_verdicts.ExpectedRows, OnHosts):
    """Failures that are expected."""


class EndTestOnHosts(test_multiprocess_ends.EndRows, OnHosts):
    """Ranks that end in every way but the right one."""


class ExceptionTestOnHosts(test_multiprocess_exceptions.ExceptionRows, OnHosts):
    """Exceptions of all kinds."""


class HangTestOnHosts(test_multiprocess_hangs.HangRows, OnHosts):
    """Ranks that hang."""


class LeftoverTestOnHosts(test_multiprocess_leftovers.LeftoverRows, OnHosts):
    """What ranks leave behind."""


class HostsTest(OnHosts):
    """What is particular to ranks on several hosts."""

    def test_passes(self) -> None:
        """Ranks of two hosts meet at a store, and each has its host's name in its outcome."""
        played = self.play(hosts.Meets, "test_sum")
        self.check(played, "pass", Status.PASSED, root=None)
        self.assertEqual([rank.host for rank in played.outcome.ranks], ["h0", "h1"])

    def test_asks_for_two_hosts(self) -> None:
        """A test that asks for two hosts has them, though its ranks fit on one; with fewer hosts it skips."""
        packed = {"HARNESS_PLACEMENT": "packed"}
        alone = self.play(hosts.Meets, "test_sum", **packed)
        self.assertEqual(len({rank.host for rank in alone.outcome.ranks}), 1)
        played = self.play(hosts.Meets, "test_on_two_hosts", **packed)
        self.check(played, "pass", Status.PASSED, root=None)
        self.assertEqual([rank.host for rank in played.outcome.ranks], ["h0", "h1"])
        skipped = self.play(hosts.Meets, "test_on_three_hosts", **packed)
        self.assertEqual(skipped.verdict, "skip")
        self.assertIn("needs 3 hosts, found 2", skipped.text)

    def test_dies(self) -> None:
        """A rank that is killed is the cause, by signal, and the text says where ranks were."""
        played = self.play(hosts.Meets, "test_killed")
        self.check(played, "ERROR", Status.CRASHED, "signal SIGKILL", "rank 0 on h0, rank 1 on h1")

    def test_deadlock(self) -> None:
        """A deadlock is proven from the logs of both hosts, by the words of one host."""
        played = self.play(hosts.Meets, "test_deadlock")
        self.check(played, "ERROR", Status.DEADLOCKED, "rank 1 left the test", "waits in barrier #1")

    def test_hangs_in_c(self) -> None:
        """A rank that holds the interpreter is ended at the deadline, with its stack."""
        played = self.play(hosts.Meets, "test_hangs_in_c", HARNESS_TIMEOUT="3", HARNESS_GRACE="0.3")
        self.check(played, "ERROR", Status.TIMED_OUT, "in test_hangs_in_c", "stack of rank 1")

    def test_output(self) -> None:
        """What a rank prints comes whole, more than a pipe holds too, and leaks are told with their host."""
        played = self.play(hosts.Meets, "test_prints")
        self.check(played, "FAIL", Status.FAILED, "the last line of rank 1")
        self.assertIn("bytes left out", played.rank(1).output)

    def test_leftovers(self) -> None:
        """A process that a rank leaves on another host is ended there, and named with its host."""
        played = self.play(hosts.Meets, "test_leaves_a_process", HARNESS_STRICT="1")
        self.assertIn("(host h1)", played.text)

    def test_pooled(self) -> None:
        """Kept ranks keep their group over hosts, and a failure has them replaced."""
        for method, verdict in (
            ("test_a", "pass"),
            ("test_b", "pass"),
            ("test_fails", "FAIL"),
            ("test_c", "pass"),
        ):
            played = self.play(hosts.Kept, method)
            self.assertEqual(played.verdict, verdict, played.text)
        retire_pool()

    def test_no_such_module(self) -> None:
        """What one host cannot import is an error with that host's name."""
        # Not at this module's import: servers have from their parent what it has imported.
        module = importlib.import_module("suites.selftest.faults.unimportable")
        self.addCleanup(sys.modules.pop, module.__name__)
        played = self.play(module.Unimportable, "test_anything", **{module.VARIABLE: "raise"})
        self.assertEqual(played.verdict, "ERROR")
        self.assertRegex(played.text, "on host h[01]: .*does not import")


if __name__ == "__main__":
    unittest.main()
