"""Tests the debugger and streamed output, at a pseudo-terminal of the test's own."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
import unittest

from suites.selftest.runner.runs import PATIENCE_S, RunnerCase


class Terminal:
    """A run at a pseudo-terminal, as a person would see it."""

    def __init__(self, argv: list[str], environ: dict[str, str], directory: str) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.execve(argv[0], argv, environ)
        self.text = ""

    def read_until(self, wanted: str) -> str:
        """Reads what appears on the screen up to ``wanted`` and returns it.

        Raises AssertionError if it never appears.
        """
        deadline = time.monotonic() + PATIENCE_S
        start = len(self.text)
        while wanted not in self.text[start:]:
            readable, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
            try:
                data = os.read(self._fd, 4096) if readable else b""
            except OSError:  # the other side of the terminal is closed
                data = b""
            if not data:
                raise AssertionError(f"no {wanted!r} in:\n{self.text}")
            self.text += data.decode(errors="replace")
        return self.text[start:]

    def type(self, line: str) -> None:
        """Types a line."""
        self.press(f"{line}\n".encode())

    def press(self, keys: bytes) -> None:
        """Presses keys, as the terminal encodes them."""
        os.write(self._fd, keys)

    def close(self) -> int:
        """Waits for the end of the run and returns its exit code."""
        try:
            while os.read(self._fd, 4096):
                continue
        except OSError:
            pass  # the terminal's end
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._fd)
        return code


class DebuggerTest(RunnerCase):
    """Runs with --pdb or --pdb-rank."""

    def test_stops_in_the_failing_test(self) -> None:
        """The debugger stops in the failing test's frame without a deadline, and then the run goes on."""
        self.write(
            "test_p",
            """
            class T(unittest.TestCase):
                def test_1(self):
                    answer = 40
                    self.fail("look at me")
                def test_2(self): pass
            """,
        )
        terminal = Terminal(
            self.command("test_p", "--pdb", "--timeout", "1"), self.environ(TERM="dumb"), str(self.directory)
        )
        terminal.read_until("(Pdb) ")
        terminal.type("p answer + 1000")
        self.assertIn("1040", terminal.read_until("(Pdb) "))
        terminal.type("c")
        terminal.read_until("1 passed, 1 failed, 0 skipped")
        self.assertEqual(terminal.close(), 1)

    def test_breakpoint(self) -> None:
        """breakpoint() in a test gets the terminal too."""
        self.write(
            "test_p",
            """
            class T(unittest.TestCase):
                def test_1(self):
                    answer = 40
                    breakpoint()
                    self.assertEqual(answer, 42)
            """,
        )
        terminal = Terminal(self.command("test_p", "--pdb"), self.environ(TERM="dumb"), str(self.directory))
        terminal.read_until("(Pdb) ")
        terminal.type("p answer + 1000")
        self.assertIn("1040", terminal.read_until("(Pdb) "))
        terminal.type("answer = 42")
        terminal.read_until("(Pdb) ")
        terminal.type("c")
        terminal.read_until("1 passed, 0 failed, 0 skipped")
        self.assertEqual(terminal.close(), 0)

    def test_breakpoint_without_a_terminal(self) -> None:
        """breakpoint() without a terminal fails at once and says what to do."""
        self.write("test_p", "class T(unittest.TestCase):\n    def test_1(self): breakpoint()\n")
        self.assertIn(". --pdb gives it", self.run_tests("test_p").of("test_1").reason)

    def test_ranks(self) -> None:
        """Ranks that failed have ended when --pdb could open a debugger; a line says how to get one."""
        self.write(
            "test_p",
            """
            from harness.cases.multiprocess import MultiProcessTestCase

            class T(MultiProcessTestCase):
                world_size = 2
                def test_1(self): self.assertEqual(self.rank, 0)
            """,
        )
        run = self.run_tests("test_p", "--pdb")
        self.assertEqual(run.code, 1)
        self.assertIn("for a debugger in rank 1, which failed first: --pdb-rank 1\n", run.out)

    def test_ctrl_c_at_a_terminal(self) -> None:
        """Ctrl-C at the terminal goes to the run alone, which ends in good order."""
        self.write(
            "test_p",
            """
            class T(unittest.TestCase):
                def test_1(self): print("RUNNING"); threading.Event().wait()
            """,
        )
        terminal = Terminal(self.command("test_p", "-s"), self.environ(TERM="dumb"), str(self.directory))
        terminal.read_until("RUNNING")
        terminal.press(b"\x03")
        terminal.read_until("in test_1")
        self.assertEqual(terminal.close(), 130)


class StreamTest(RunnerCase):
    """Runs with -s, which streams output."""

    def test_output_comes_as_it_is_printed(self) -> None:
        """Output is not captured in the record but goes to the runner's own streams."""
        self.write(
            "test_s",
            """
            class T(unittest.TestCase):
                def test_1(self): print("to out"); print("to err", file=sys.stderr); self.fail("no")
            """,
        )
        run = self.run_tests("test_s", "-s")
        self.assertIn("to out\n", run.out)
        self.assertIn("to err\n", run.err)
        self.assertEqual(run.of("test_1").output, "")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main()
