"""Tests that what a rank leaves is ended and reported, and that false reports are noticed."""

from __future__ import annotations

import os
import sys
import unittest

from harness import RankLeakWarning, Status
from suites.selftest.faults import leftovers
from suites.selftest.faults.base import ANNOUNCE
from suites.selftest.faults.processes import Announced, still_there
from suites.selftest.faults.rows import OnForkedInterpreters, OnForkServer, Rows


class LeftoverRows(Rows):
    """Rank 1 leaves something; the base class checks after each test that nothing of it is left."""

    def leaks(self, method: str, *said: str, **environ: str) -> None:
        """Checks that a test passes with one RankLeakWarning, and is an error in strict mode."""
        played = self.play(leftovers.Leaves, method, **environ)
        self.assertEqual(played.verdict, "pass", played.text)
        warned = [str(w.message) for w in played.warnings if w.category is RankLeakWarning]
        self.assertEqual(len(warned), 1, [str(w.message) for w in played.warnings])
        for words in (method, *said):
            self.assertIn(words, warned[0])
        strict = self.play(leftovers.Leaves, method, HARNESS_STRICT="1", **environ)
        self.assertEqual(strict.verdict, "ERROR")
        self.assertIn("left behind", strict.text)

    def clean(self, method: str) -> None:
        """Checks that a test passes without a warning, even in strict mode."""
        played = self.play(leftovers.Leaves, method, HARNESS_STRICT="1")
        self.assertEqual(played.verdict, "pass", played.text)
        self.assertEqual([w.message for w in played.warnings if w.category is RankLeakWarning], [])

    def test_thread(self) -> None:
        """A thread ends with its rank."""
        self.clean("test_thread")

    def test_daemon_thread(self) -> None:
        """A daemon thread that prints ends with its rank."""
        self.clean("test_daemon_thread")

    def test_fork(self) -> None:
        """A forked child that returns from the test is not taken for the rank."""
        self.clean("test_fork")

    def test_child(self) -> None:
        """A child process is ended and named by its command."""
        self.leaks("test_child", "time.sleep(3600)")

    def test_child_that_ignores_signals(self) -> None:
        """A child process that ignores signals is ended."""
        self.leaks("test_child_that_ignores_signals")

    def test_session_leader(self) -> None:
        """A child in a session of its own is found and ended."""
        self.leaks("test_session_leader", "time.sleep(3600)")

    def test_daemon(self) -> None:
        """A daemon that left session, group and streams is found and gone when the test is over."""
        with Announced(self.temporary) as announced:
            self.leaks("test_daemon", **{ANNOUNCE: announced.path})
            self.assertEqual(still_there(announced.read(2)), [])

    def test_child_that_ends_by_itself(self) -> None:
        """A child process that ends by itself is no leak."""
        self.clean("test_child_that_ends_by_itself")

    def test_child_and_crash(self) -> None:
        """If a rank crashes and leaves a child, the crash is the verdict and the child is gone."""
        played = self.play(leftovers.Leaves, "test_child_and_crash")
        self.check(played, "ERROR", Status.CRASHED, "rank 1 crashed: signal SIGKILL", "time.sleep(3600)")

    def test_environment(self) -> None:
        """What a rank changed is seen neither by the next test nor by the parent."""
        mine = (dict(os.environ), os.getcwd(), list(sys.path), list(sys.argv))
        self.assertEqual(self.play(leftovers.Leaves, "test_environment").verdict, "pass")
        self.assertEqual((dict(os.environ), os.getcwd(), list(sys.path), list(sys.argv)), mine)
        after = self.play(leftovers.Leaves, "test_environment_is_whole", EXPECTED_CWD=os.getcwd())
        self.assertEqual(after.verdict, "pass", after.text)


class LeftoversOnForkServer(LeftoverRows, OnForkServer):
    """Runs the tests on the fork server."""


class LeftoversOnSpawn(LeftoverRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


if __name__ == "__main__":
    unittest.main()
