"""Tests that a process which cannot run Python any more ends, and that one which can does not."""

from __future__ import annotations

import subprocess
import sys
import unittest

from suites.selftest.ranks.external.jobs import LONG_S, ROOT

_HOLDS = "ctypes.PyDLL(None).sleep(100000)"  # without giving the interpreter's lock away


class WatchdogTest(unittest.TestCase):
    """Processes that arm it."""

    def end_of(self, program: str) -> subprocess.CompletedProcess[str]:
        """Runs a program whose watchdog waits for a short turn."""
        begin = "import ctypes, math; from harness.ranks.external import watchdog; watchdog.TURN_S = 0.2\n"
        return subprocess.run(
            [sys.executable, "-c", begin + program],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=LONG_S,
            check=False,
        )

    def test_holder_of_the_lock(self) -> None:
        """It ends with exit code 1 and the line where it is."""
        done = self.end_of(f"watchdog.arm(0.1)\n{_HOLDS}\n")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("Timeout", done.stderr)
        self.assertIn('File "<string>", line 3', done.stderr)

    def test_others(self) -> None:
        """Who disarms it, arms it for longer, or has no deadline lives."""
        for word in (
            "watchdog.arm(0.1); watchdog.disarm()",
            "watchdog.arm(0); watchdog.arm(1e6)",
            "watchdog.arm(math.inf)",
        ):
            with self.subTest(word):
                done = self.end_of(f"{word}\nimport threading; threading.Event().wait(0.5)\nprint('alive')")
                self.assertEqual((done.returncode, done.stdout), (0, "alive\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
