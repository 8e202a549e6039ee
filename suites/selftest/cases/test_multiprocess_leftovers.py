"""Tests that what a rank leaves is ended and reported, and that false reports are noticed."""

from __future__ import annotations

import os
import sys
import unittest

from harness import RankLeakWarning, Status
from suites.selftest.faults import leftovers
from suites.selftest.faults.base import ANNOUNCE
from suites.selftest.faults.processes import Announced, still_there
from suites.selftest.faults.rows import IMPATIENT, OnForkServer, OnSpawn, Rows


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


class LieRows(Rows):
    """Rank 1 sends what it should not, and the test is an error of rank 1 alone."""

    def lies(self, method: str) -> None:
        """Checks a verdict that is an error, says why, and blames rank 1."""
        played = self.play(leftovers.Lies, method, **IMPATIENT)
        self.check(played, "ERROR", Status.CRASHED, "rank 1", "channel", "no report")
        self.assertEqual(played.rank(0).status, Status.PASSED)

    def test_garbage(self) -> None:
        """Plain text on the channel is an error."""
        self.lies("test_garbage")

    def test_garbage_and_hang(self) -> None:
        """A rank that sends text and hangs is ended after the grace and not after the deadline."""
        self.lies("test_garbage_and_hang")

    def test_framed_garbage(self) -> None:
        """A frame without a message is an error."""
        self.lies("test_framed_garbage")

    def test_wrong_message(self) -> None:
        """A message that no rank sends is an error."""
        self.lies("test_wrong_message")

    def test_another_rank(self) -> None:
        """A report in another rank's name is an error, and that rank's own report stands."""
        self.lies("test_another_rank")

    def test_no_rank_at_all(self) -> None:
        """A report for a rank that does not exist is an error."""
        self.lies("test_no_rank_at_all")

    def test_not_a_mapping(self) -> None:
        """A report that is not a mapping is an error."""
        self.lies("test_not_a_mapping")

    def test_wrong_fields(self) -> None:
        """A report with a field of the wrong type is an error."""
        self.lies("test_wrong_fields")

    def test_half_a_frame(self) -> None:
        """Half a frame, which swallows the real report, is an error."""
        played = self.play(leftovers.HalfALie, "test_half_a_frame")
        self.assertEqual(played.verdict, "ERROR")
        self.assertEqual(played.outcome.root_cause, 1)

    def test_passes_then_fails(self) -> None:
        """A rank that reports a pass and then fails is found out by its exit code."""
        played = self.play(leftovers.Lies, "test_passes_then_fails", **IMPATIENT)
        self.assertEqual(played.verdict, "ERROR")
        self.assertEqual(played.outcome.root_cause, 1)

    def test_closes_everything(self) -> None:
        """A rank that closed its channel and cannot report has crashed."""
        played = self.play(leftovers.Lies, "test_closes_everything", **IMPATIENT)
        self.assertEqual(played.verdict, "ERROR")
        self.assertEqual(played.outcome.root_cause, 1)
        self.assertEqual(played.rank(0).status, Status.PASSED)

    def test_blocks_its_channel(self) -> None:
        """A report over a channel that the test made non-blocking arrives whole."""
        played = self.play(leftovers.Lies, "test_blocks_its_channel")
        self.assertEqual(played.verdict, "pass", played.text)


class LeftoversOnForkServer(LeftoverRows, OnForkServer):
    """Runs the tests on the fork server."""


class LeftoversOnSpawn(LeftoverRows, OnSpawn):
    """Runs the tests on new interpreters."""


class LiesOnForkServer(LieRows, OnForkServer):
    """Runs the tests on the fork server."""


class LiesOnSpawn(LieRows, OnSpawn):
    """Runs the tests on new interpreters."""


if __name__ == "__main__":
    unittest.main()
