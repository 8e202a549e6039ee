"""Tests the end of what a process keeps: its order, and that it comes at the exit of that process only."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[3])

BEGIN = """
    import os
    from harness.system.closing import close_all, on_close

    close_all()  # nothing is kept yet
    for name in ("servers", "pool"):
        on_close(lambda name=name: print("closed", name, flush=True))
"""


class ClosingTest(unittest.TestCase):
    """``on_close`` and ``close_all``, each time in a new process."""

    def printed(self, code: str) -> list[str]:
        """Returns the lines that a process prints which keeps two things and then runs ``code``."""
        program = textwrap.dedent(BEGIN) + textwrap.dedent(code)
        run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        return run.stdout.decode().splitlines()

    def test_exit(self) -> None:
        """At the exit, what was registered last is ended first."""
        self.assertEqual(self.printed("print('end', flush=True)"), ["end", "closed pool", "closed servers"])

    def test_close_all(self) -> None:
        """``close_all`` ends everything, and again each time that it is called."""
        lines = self.printed("close_all(); print('between', flush=True)")
        both = ["closed pool", "closed servers"]
        self.assertEqual(lines, [*both, "between", *both])

    def test_fork(self) -> None:
        """A fork ends what it keeps itself and nothing of its parent's."""
        code = """
            if os.fork() == 0:
                on_close(lambda: print("closed the fork's", flush=True))
                close_all()
                os._exit(0)
            os.wait()
        """
        self.assertEqual(self.printed(code), ["closed the fork's", "closed pool", "closed servers"])

    def test_fork_that_exits(self) -> None:
        """The exit handlers that a fork inherits end nothing."""
        code = """
            if os.fork() == 0:
                raise SystemExit(0)
            os.wait()
            print("parent", flush=True)
        """
        self.assertEqual(self.printed(code), ["parent", "closed pool", "closed servers"])


if __name__ == "__main__":
    unittest.main()
