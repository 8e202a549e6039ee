"""Tests that ranks which hang time out, show where with a stack, and are gone afterwards."""

from __future__ import annotations

import sys
import unittest

from harness import Status
from harness.settings import MORE_TIME
from suites.selftest.faults import hangs
from suites.selftest.faults.rows import IMPATIENT, OnForkedInterpreters, OnForkServer, Played, Rows


class HangRows(Rows):
    """Rank 1 hangs until the deadline; rank 0, which passed, is never blamed."""

    def hang(self, method: str, *said: str, signalled: str = "") -> Played:
        """Checks a test that ends at the deadline, with a stack that leads to the test's method."""
        played = self.play(hangs.Hangs, method)
        self.check(played, "ERROR", Status.TIMED_OUT, "rank 1 timed out", *said)
        self.assertEqual(played.text.count(f"hint: {MORE_TIME}"), 1, played.text)
        self.assertEqual(played.rank(0).status, Status.PASSED)
        self.assertNotIn("rank 0 timed out", played.text)
        self.assertIn(method, played.rank(1).stack, "the stack has to lead to the test's line")
        return played

    def test_in_python(self) -> None:
        """The stack of a rank that hangs in Python names the function."""
        self.hang("test_in_python", "in wait_in_python", "stack of rank 1")

    def test_in_c_with_the_gil(self) -> None:
        """A rank that hangs in C with the GIL held has a stack, although it can run no Python code."""
        self.hang("test_in_c_with_the_gil", "in test_in_c_with_the_gil")

    def test_in_c_with_the_gil_and_sigterm_ignored(self) -> None:
        """A rank that hangs in C and ignores SIGTERM is ended by SIGKILL."""
        played = self.hang("test_in_c_with_the_gil_and_sigterm_ignored")
        self.assertEqual(played.rank(1).exit_code, -9)

    def test_in_calls_that_a_signal_ends(self) -> None:
        """A rank times out even if the harness's own signal ends its system call and the test then passes."""
        for method in (
            "test_in_a_sleep",
            "test_in_a_sleep_with_the_gil",
            "test_in_a_poll",
            "test_in_a_poll_with_the_gil",
            "test_in_sleeps_with_sigterm_caught",
        ):
            with self.subTest(method):
                self.hang(method, "in " + method)

    def test_in_a_call_that_is_restarted(self) -> None:
        """The request for a stack ends no system call that the system can restart."""
        self.assertNotIn("too late", self.hang("test_in_a_read", "in test_in_a_read").text)

    def test_in_a_call_that_fails_when_a_signal_ends_it(self) -> None:
        """A failure that the harness's own signal has caused is not the verdict."""
        played = self.hang("test_in_a_sleep_that_is_checked")
        self.assertIsNone(played.rank(1).error)

    def test_after_a_failure(self) -> None:
        """A peer of a failed rank is collateral, whatever it does when it is asked for its stack."""
        played = self.play(hangs.HangsAfterPeer, "test_after_a_failure", **IMPATIENT)
        self.check(played, "FAIL", Status.FAILED, "the cause", root=0, collateral=(1,))

    def test_after_a_skip(self) -> None:
        """A peer that skips only when it is asked for its stack has not skipped with the others."""
        played = self.play(hangs.HangsAfterPeer, "test_after_a_skip", **IMPATIENT)
        self.check(played, "ERROR", Status.ERROR, "divergent skip", root=0, collateral=(1,))

    def test_with_sigterm_ignored(self) -> None:
        """A rank that hangs in Python and ignores SIGTERM is ended by SIGKILL."""
        played = self.hang("test_with_sigterm_ignored", "in wait_in_python")
        self.assertEqual(played.rank(1).exit_code, -9)

    def test_in_another_group(self) -> None:
        """A rank that has left its process group and ignores SIGTERM is ended by SIGKILL, and nobody else."""
        played = self.hang("test_in_another_group", "in wait_in_python")
        self.assertEqual(played.rank(1).exit_code, -9)

    def test_with_everything_caught(self) -> None:
        """A rank that catches every exception is ended by SIGKILL."""
        played = self.hang("test_with_everything_caught", "in wait_in_python")
        self.assertEqual(played.rank(1).exit_code, -9)

    def test_stopped(self) -> None:
        """A rank that is stopped times out, is ended by SIGKILL, and its verdict says that it was stopped."""
        played = self.play(hangs.Hangs, "test_stopped")
        self.check(played, "ERROR", Status.TIMED_OUT, "rank 1 timed out (its process was stopped")
        self.assertEqual((played.rank(0).status, played.rank(1).exit_code), (Status.PASSED, -9))

    def test_in_a_destructor(self) -> None:
        """The stack of a rank that hangs in a destructor names the destructor."""
        self.hang("test_in_a_destructor", "in __del__")

    def test_in_a_cleanup(self) -> None:
        """A rank that hangs in a cleanup times out, because cleanups belong to the test."""
        played = self.play(hangs.Hangs, "test_in_a_cleanup")
        self.check(played, "ERROR", Status.TIMED_OUT, "rank 1 timed out", "in wait_in_python")

    def test_everywhere(self) -> None:
        """If all ranks hang on the same line, both time out and their stack is shown once."""
        played = self.play(hangs.HangsEverywhere, "test_everywhere")
        self.assertEqual(played.verdict, "ERROR")
        self.assertEqual([o.status for o in played.outcome.ranks], [Status.TIMED_OUT] * 2, played.text)
        self.assertIn("stack of ranks 0, 1", played.text)

    @unittest.skipIf(sys.version_info < (3, 11), "unittest tells of sub-tests when the test is over")
    def test_after_a_sub_test(self) -> None:
        """The rank whose sub-test failed before the hang is the cause, with the sub-test's traceback."""
        played = self.play(hangs.Hangs, "test_after_a_sub_test")
        said = ("cause: rank 1 timed out after 1 sub-test had failed", "AssertionError: why all ranks hang")
        self.check(played, "ERROR", Status.TIMED_OUT, *said)
        self.assertEqual(len(played.result.failures), 1)

    def test_in_atexit(self) -> None:
        """A rank whose process does not end after a pass is an error that shows its stack."""
        played = self.play(hangs.HangsAtExit, "test_in_atexit", HARNESS_EXIT_GRACE="2")
        self.check(played, "ERROR", Status.TIMED_OUT, "rank 1 timed out while exiting", "in wait_in_python")
        self.assertNotIn(MORE_TIME, played.text)  # the test's limit is not what it exceeded
        self.assertEqual(played.rank(0).status, Status.PASSED)

    def test_the_next_test_is_unharmed(self) -> None:
        """A hang does not harm the next test."""
        self.play(hangs.Hangs, "test_with_sigterm_ignored")
        played = self.play(hangs.PassesAfterwards, "test_passes")
        self.assertEqual(played.verdict, "pass", played.text)


class HangsOnForkServer(HangRows, OnForkServer):
    """Runs the tests on the fork server."""


class HangsOnSpawn(HangRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


if __name__ == "__main__":
    unittest.main()
