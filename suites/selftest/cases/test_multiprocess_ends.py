"""Tests that ranks which end without a report, or with a wrong one, are errors that say how they ended."""

from __future__ import annotations

import unittest

from harness import Status
from suites.selftest.faults import ends
from suites.selftest.faults.rows import OnForkedInterpreters, OnForkServer, Rows


class EndRows(Rows):
    """Rank 1 ends; rank 0, which passed, is never blamed."""

    def crash(self, method: str, *said: str) -> None:
        """Checks a verdict of a crash of rank 1 that contains these words."""
        played = self.play(ends.Ends, method)
        self.check(played, "ERROR", Status.CRASHED, "rank 1 crashed", *said, f"ends.Ends.{method}")
        self.assertEqual(played.rank(0).status, Status.PASSED)

    def test_passes(self) -> None:
        """The case without a fault passes, or none of the other tests would prove anything."""
        played = self.play(ends.Ends, "test_passes")
        self.assertEqual(played.verdict, "pass", played.text)
        self.assertEqual(played.outcome.status, Status.PASSED)
        self.assertEqual([o.exit_code for o in played.outcome.ranks], [0, 0])

    def test_os_exit_0(self) -> None:
        """Exit code 0 without an outcome is a crash."""
        self.crash("test_os_exit_0", "exit code 0 without an outcome")

    def test_os_exit_3(self) -> None:
        """The verdict names the exit code."""
        self.crash("test_os_exit_3", "exit code 3")

    def test_every_rank_exits_0(self) -> None:
        """If every rank exits with 0 and no outcome, the test is an error."""
        played = self.play(ends.Ends, "test_every_rank_exits_0")
        self.assertEqual(played.verdict, "ERROR")
        self.assertEqual([o.status for o in played.outcome.ranks], [Status.CRASHED] * 2)
        self.assertIn("exit code 0 without an outcome", played.text)

    def test_sys_exit_0(self) -> None:
        """A SystemExit with code 0 is a crash."""
        self.crash("test_sys_exit_0", "exit code 0", "sys.exit")

    def test_sys_exit_7(self) -> None:
        """A SystemExit is a crash with its code and the line that raised it."""
        self.crash("test_sys_exit_7", "exit code 7", "sys.exit(7)", "ends.py")

    def test_sys_exit_words(self) -> None:
        """A SystemExit with a message is a crash that shows the message."""
        self.crash("test_sys_exit_words", "exit code 1", "no more of this")

    def test_sigsegv(self) -> None:
        """The verdict names the signal SIGSEGV."""
        self.crash("test_sigsegv", "signal SIGSEGV")

    def test_sigkill(self) -> None:
        """The verdict names the signal SIGKILL."""
        self.crash("test_sigkill", "signal SIGKILL")

    def test_sigabrt(self) -> None:
        """The verdict names the signal and the Python line that was running."""
        self.crash("test_sigabrt", "signal SIGABRT", "in test_sigabrt")

    def test_null_dereference(self) -> None:
        """The verdict names the signal and the Python line that was running."""
        self.crash("test_null_dereference", "signal SIGSEGV", "in test_null_dereference")

    def test_base_exception(self) -> None:
        """A BaseException is reported like any other exception."""
        played = self.play(ends.Ends, "test_base_exception")
        self.check(
            played, "ERROR", Status.ERROR, "rank 1 raised", "Unheard: straight through", "raise Unheard"
        )

    def test_keyboard_interrupt(self) -> None:
        """A KeyboardInterrupt that a test raises is its error, and the run in the parent goes on."""
        played = self.play(ends.Ends, "test_keyboard_interrupt")
        self.check(played, "ERROR", Status.ERROR, "rank 1 raised", "KeyboardInterrupt")

    def test_sigint(self) -> None:
        """A SIGINT to one rank alone is that test's error."""
        played = self.play(ends.Ends, "test_sigint")
        self.check(played, "ERROR", Status.ERROR, "rank 1 raised", "KeyboardInterrupt")

    def test_crash_after_report(self) -> None:
        """A rank that reported a pass and then died did not pass."""
        self.crash("test_crash_after_report", "exit code 9", "after its test had passed")


class EndsOnForkServer(EndRows, OnForkServer):
    """Runs the tests on the fork server."""


class EndsOnSpawn(EndRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


if __name__ == "__main__":
    unittest.main()
