"""Tests ``torch-harness look``: its text, its exit codes."""

from __future__ import annotations

import contextlib
import io
import unittest

from harness.look.cli import main
from harness.runner import cli
from suites.selftest.look.blocked import Blocked
from suites.selftest.runner.runs import RUN_TESTS


class LookTest(unittest.TestCase):
    """The command, in this process."""

    def look(self, *words: str, command: object = None) -> tuple[int, str, str]:
        """The exit code, and what is printed on both streams."""
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            code = cli.main(["look", *words]) if command else main(words, "torch-harness look")
        return code, out.getvalue(), err.getvalue()

    def test_run(self) -> None:
        """A run of the runner is seen from outside: its tests with ranks by their names."""
        blocked = Blocked(self, str(RUN_TESTS), "test_blocked", "-k", "test_ranks")
        blocked.await_wait()
        for command in (None, "torch-harness"):
            code, out, err = self.look(str(blocked.process.pid), command=command)
            self.assertEqual((code, err), (0, ""))
            self.assertIn("test_blocked.T.test_ranks", out)
            self.assertRegex(out, "rank 0: waiting in all_reduce #2")
        self.assertIn("1 passed, 0 failed", blocked.go_on())

    def test_no_process(self) -> None:
        """No such process is a usage error, in one line."""
        code, out, err = self.look(str(2**22 + 1))
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(err, f"torch-harness look: error: there is no process {2**22 + 1}\n")


if __name__ == "__main__":
    unittest.main()
