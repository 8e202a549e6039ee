"""Fault table: ranks that go without a word, or with the wrong one, are errors and say how they went."""

from __future__ import annotations

import unittest

from harness import Status
from suites.selftest.faults import ends
from suites.selftest.faults.rows import OnForkServer, OnSpawn, Rows


class EndRows(Rows):
    """Rank 1 ends; rank 0, which passed, is never blamed."""

    def crash(self, method: str, *said: str) -> None:
        """A row that is a crash of rank 1, as these words say."""
        played = self.play(ends.Ends, method)
        self.check(played, "ERROR", Status.CRASHED, "rank 1 crashed", *said, f"ends.Ends.{method}")
        self.assertEqual(played.rank(0).status, Status.PASSED)

    def test_passes(self) -> None:
        """The row without a fault, or none of the others proves anything."""
        played = self.play(ends.Ends, "test_passes")
        self.assertEqual(played.verdict, "pass", played.text)
        self.assertEqual(played.outcome.status, Status.PASSED)
        self.assertEqual([o.exit_code for o in played.outcome.ranks], [0, 0])

    def test_os_exit_0(self) -> None:
        """Absence is failure: exit code 0 alone never passes."""
        self.crash("test_os_exit_0", "exit code 0 without an outcome")

    def test_os_exit_3(self) -> None:
        """Named by its code."""
        self.crash("test_os_exit_3", "exit code 3")

    def test_every_rank_exits_0(self) -> None:
        """No rank says anything, and that is an error too."""
        played = self.play(ends.Ends, "test_every_rank_exits_0")
        self.assertEqual(played.verdict, "ERROR")
        self.assertEqual([o.status for o in played.outcome.ranks], [Status.CRASHED] * 2)
        self.assertIn("exit code 0 without an outcome", played.text)

    def test_sys_exit_0(self) -> None:
        """The same by SystemExit."""
        self.crash("test_sys_exit_0", "exit code 0", "sys.exit")

    def test_sys_exit_7(self) -> None:
        """Named by its code, with the line that exited."""
        self.crash("test_sys_exit_7", "exit code 7", "sys.exit(7)", "ends.py")

    def test_sys_exit_words(self) -> None:
        """What it said is told."""
        self.crash("test_sys_exit_words", "exit code 1", "no more of this")

    def test_sigsegv(self) -> None:
        """Named by its signal."""
        self.crash("test_sigsegv", "signal SIGSEGV")

    def test_sigkill(self) -> None:
        """Named by its signal."""
        self.crash("test_sigkill", "signal SIGKILL")

    def test_sigabrt(self) -> None:
        """Named by its signal, with the Python line that was running."""
        self.crash("test_sigabrt", "signal SIGABRT", "in test_sigabrt")

    def test_null_dereference(self) -> None:
        """Named by its signal, with the Python line that was running."""
        self.crash("test_null_dereference", "signal SIGSEGV", "in test_null_dereference")

    def test_base_exception(self) -> None:
        """An exception like any other."""
        played = self.play(ends.Ends, "test_base_exception")
        self.check(
            played, "ERROR", Status.ERROR, "rank 1 raised", "Unheard: straight through", "raise Unheard"
        )

    def test_keyboard_interrupt(self) -> None:
        """One raised by a test is that test's error; the run in the parent goes on."""
        played = self.play(ends.Ends, "test_keyboard_interrupt")
        self.check(played, "ERROR", Status.ERROR, "rank 1 raised", "KeyboardInterrupt")

    def test_sigint(self) -> None:
        """A signal to one rank alone is that test's error."""
        played = self.play(ends.Ends, "test_sigint")
        self.check(played, "ERROR", Status.ERROR, "rank 1 raised", "KeyboardInterrupt")

    def test_crash_after_report(self) -> None:
        """A rank that said "passed" and then died did not pass."""
        self.crash("test_crash_after_report", "exit code 9", "after its test had passed")


class EndsOnForkServer(EndRows, OnForkServer):
    """On the fork server."""


class EndsOnSpawn(EndRows, OnSpawn):
    """On new interpreters."""


if __name__ == "__main__":
    unittest.main()
