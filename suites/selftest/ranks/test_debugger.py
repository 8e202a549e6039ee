"""Tests ``HARNESS_PDB_RANK`` on a real terminal, and ``breakpoint()`` in a rank that has none."""

from __future__ import annotations

import os
import pty
import select
import sys
import unittest

from suites.selftest.faults import debugging
from suites.selftest.faults.rows import OnForkServer

# Seconds for a debugger's prompt to come on a loaded machine; only a broken test waits this long.
PROMPT_S = 120.0


class Dialogue:
    """A test run on a pseudo-terminal of its own, and the dialogue there."""

    def __init__(self, test: str, rank: str, **variables: str) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(HARNESS_PDB_RANK=rank, HARNESS_TIMEOUT="1", HARNESS_GRACE="0.1", **variables)
            os.execv(sys.executable, [sys.executable, "-m", "unittest", f"{debugging.__name__}.{test}"])

    def until(self, words: bytes) -> str:
        """Returns the output up to and including ``words``."""
        heard = b""
        while words not in heard:
            ready, _, _ = select.select([self._fd], [], [], PROMPT_S)
            assert ready, heard.decode()
            heard += os.read(self._fd, 4096)
        return heard.decode()

    def say(self, line: str) -> None:
        """Types a line at the terminal."""
        os.write(self._fd, line.encode() + b"\n")

    def rest(self) -> tuple[str, int]:
        """Returns everything up to the end of the run, and its exit code."""
        heard = b""
        try:
            while data := os.read(self._fd, 4096):
                heard += data
        except OSError:  # what Linux answers once nobody has the other side open
            pass
        os.close(self._fd)
        return heard.decode(), os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Debugging(unittest.TestCase):
    """A person who debugs a rank at a terminal."""

    def test_breakpoint_of_one_rank_with_deadlines_off(self) -> None:
        run = Dialogue("Debugged.test_breakpoint", rank="1")
        run.until(b"(Pdb) ")
        run.say("p 40 + number")
        self.assertIn("41", run.until(b"(Pdb) "))
        run.say("c")
        text, code = run.rest()
        self.assertEqual(code, 0, text)

    def test_post_mortem_where_the_test_failed(self) -> None:
        run = Dialogue("Debugged.test_fails", rank="0")
        self.assertIn("test_fails", run.until(b"(Pdb) "))
        run.say("p number")
        self.assertIn("0", run.until(b"(Pdb) "))
        run.say("q")
        text, code = run.rest()
        self.assertEqual(code, 1, text)
        self.assertIn("FAILED (failures=1)", text)

    def test_post_mortem_above_hidden_frames(self) -> None:
        """The debugger stands in the innermost frame that does not hide itself."""
        run = Dialogue("Debugged.test_hides_a_frame", rank="0")
        self.assertIn("test_hides_a_frame()", run.until(b"(Pdb) "))
        run.say("q")
        self.assertEqual(run.rest()[1], 1)

    def test_users_own_debugger(self) -> None:
        """The rank with the terminal calls what PYTHONBREAKPOINT names, the other rank nothing."""
        run = Dialogue("Debugged.test_breakpoint", rank="1", PYTHONBREAKPOINT="pdb.set_trace")
        run.until(b"(Pdb) ")
        run.say("p 40 + number")
        self.assertIn("41", run.until(b"(Pdb) "))
        run.say("c")
        text, code = run.rest()
        self.assertEqual(code, 0, text)


class WithoutTerminal(OnForkServer):
    """A rank for which nobody asked to debug, or which has no terminal to do it on."""

    def test_breakpoint_says_how(self) -> None:
        played = self.play(debugging.Debugged, "test_breakpoint")
        self.assertEqual(played.verdict, "ERROR")
        self.assertRegex(played.text, r"ranks have no terminal\. Set HARNESS_PDB_RANK=[01]")

    def test_users_own_debugger(self) -> None:
        """What PYTHONBREAKPOINT names is called: in all ranks, or in the one that is to be debugged."""
        hook = f"{debugging.__name__}.users_debugger"
        called = self.play(debugging.Debugged, "test_breakpoint", PYTHONBREAKPOINT=hook)
        self.assertEqual([o.status.value for o in called.outcome.ranks], ["failed", "failed"])
        self.assertIn("the user's debugger was called", called.text)
        nothing = self.play(debugging.Debugged, "test_breakpoint", PYTHONBREAKPOINT="0")
        self.assertEqual(nothing.verdict, "pass")

    def test_rank_that_is_not_there(self) -> None:
        """Nobody waits for a debugger that never comes."""
        played = self.play(debugging.Debugged, "test_breakpoint", HARNESS_PDB_RANK="9")
        self.assertEqual(played.verdict, "ERROR")
        said = "rank 9 is to be debugged (HARNESS_PDB_RANK), and this test has ranks 0 to 1"
        self.assertIn(said, played.text)


if __name__ == "__main__":
    unittest.main()
