"""Fault table: what a rank leaves is ended and told, what it changed stays its own, lies are noticed."""

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
    """Rank 1 leaves something. That nothing is left of it is what the base class checks after each row."""

    def leaks(self, method: str, *said: str, **environ: str) -> None:
        """A row that passes with one RankLeakWarning, and is an error where that is asked for."""
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
        """A row that passes without a word, even where leftovers are errors."""
        played = self.play(leftovers.Leaves, method, HARNESS_STRICT="1")
        self.assertEqual(played.verdict, "pass", played.text)
        self.assertEqual([w.message for w in played.warnings if w.category is RankLeakWarning], [])

    def test_thread(self) -> None:
        """Ends with the rank."""
        self.clean("test_thread")

    def test_daemon_thread(self) -> None:
        """Ends with the rank, in the middle of a word."""
        self.clean("test_daemon_thread")

    def test_fork(self) -> None:
        """A child of the test's own that comes out of the test is not taken for the rank."""
        self.clean("test_fork")

    def test_child(self) -> None:
        """Ended, and named by its command."""
        self.leaks("test_child", "time.sleep(3600)")

    def test_child_that_ignores_signals(self) -> None:
        """Ended all the same."""
        self.leaks("test_child_that_ignores_signals")

    def test_session_leader(self) -> None:
        """Found although it left the rank's process group."""
        self.leaks("test_session_leader", "time.sleep(3600)")

    def test_daemon(self) -> None:
        """Found although it left everything; gone when the test is over."""
        with Announced(self.temporary) as announced:
            self.leaks("test_daemon", **{ANNOUNCE: announced.path})
            self.assertEqual(still_there(announced.read(2)), [])

    def test_child_that_ends_by_itself(self) -> None:
        """No leak."""
        self.clean("test_child_that_ends_by_itself")

    def test_child_and_crash(self) -> None:
        """The crash is the verdict, and the child is gone."""
        played = self.play(leftovers.Leaves, "test_child_and_crash")
        self.check(played, "ERROR", Status.CRASHED, "rank 1 crashed: signal SIGKILL", "time.sleep(3600)")

    def test_environment(self) -> None:
        """The next test meets nothing of what a rank changed, and neither does the parent."""
        mine = (dict(os.environ), os.getcwd(), list(sys.path), list(sys.argv))
        self.assertEqual(self.play(leftovers.Leaves, "test_environment").verdict, "pass")
        self.assertEqual((dict(os.environ), os.getcwd(), list(sys.path), list(sys.argv)), mine)
        after = self.play(leftovers.Leaves, "test_environment_is_whole", EXPECTED_CWD=os.getcwd())
        self.assertEqual(after.verdict, "pass", after.text)


class LieRows(Rows):
    """Rank 1 sends what it should not; the test is an error of rank 1 and of nobody else."""

    def lies(self, method: str) -> None:
        """A row that is an error, says why, and blames rank 1."""
        played = self.play(leftovers.Lies, method, **IMPATIENT)
        self.check(played, "ERROR", Status.CRASHED, "rank 1", "channel", "no report")
        self.assertEqual(played.rank(0).status, Status.PASSED)

    def test_garbage(self) -> None:
        """A stray print."""
        self.lies("test_garbage")

    def test_garbage_and_hang(self) -> None:
        """It is ended after the grace, not after the deadline."""
        self.lies("test_garbage_and_hang")

    def test_framed_garbage(self) -> None:
        """No message."""
        self.lies("test_framed_garbage")

    def test_wrong_message(self) -> None:
        """Not a rank's."""
        self.lies("test_wrong_message")

    def test_another_rank(self) -> None:
        """Rank 0's own word stands."""
        self.lies("test_another_rank")

    def test_no_rank_at_all(self) -> None:
        """Nobody's."""
        self.lies("test_no_rank_at_all")

    def test_not_a_mapping(self) -> None:
        """Nonsense within a message."""
        self.lies("test_not_a_mapping")

    def test_wrong_fields(self) -> None:
        """Nonsense within a report."""
        self.lies("test_wrong_fields")

    def test_half_a_frame(self) -> None:
        """Swallows the real report, so the rank never says anything."""
        played = self.play(leftovers.Lies, "test_half_a_frame", HARNESS_TIMEOUT="5")
        self.assertEqual(played.verdict, "ERROR")
        self.assertEqual(played.outcome.root_cause, 1)

    def test_passes_then_fails(self) -> None:
        """The exit code gives it away."""
        played = self.play(leftovers.Lies, "test_passes_then_fails", **IMPATIENT)
        self.assertEqual(played.verdict, "ERROR")
        self.assertEqual(played.outcome.root_cause, 1)

    def test_closes_everything(self) -> None:
        """A rank that cannot report has crashed, whatever it wanted to say."""
        played = self.play(leftovers.Lies, "test_closes_everything", **IMPATIENT)
        self.assertEqual(played.verdict, "ERROR")
        self.assertEqual(played.outcome.root_cause, 1)
        self.assertEqual(played.rank(0).status, Status.PASSED)

    def test_blocks_its_channel(self) -> None:
        """No fault of anybody's: the report arrives whole."""
        played = self.play(leftovers.Lies, "test_blocks_its_channel")
        self.assertEqual(played.verdict, "pass", played.text)


class LeftoversOnForkServer(LeftoverRows, OnForkServer):
    """On the fork server."""


class LeftoversOnSpawn(LeftoverRows, OnSpawn):
    """On new interpreters."""


class LiesOnForkServer(LieRows, OnForkServer):
    """On the fork server."""


class LiesOnSpawn(LieRows, OnSpawn):
    """On new interpreters."""


if __name__ == "__main__":
    unittest.main()
