"""Tests that a failure's text shows the frames of the user's code, in every rank mode and without ranks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest
from typing import Any

from harness.ranks.processes import pool
from harness.runner.worker_process.unittest_result import RecordingResult
from suites.selftest.faults import frames
from suites.selftest.faults.rows import FaultRows

_FRAME = re.compile(r'^\s*File "[^"]*", line \d+, in (\S+)', re.MULTILINE)


def functions(text: str) -> str:
    """Returns the functions of the tracebacks in a text, with a semicolon between two tracebacks."""
    parts = text.split("Traceback (most recent call last)")
    return "; ".join(" ".join(found) for part in parts if (found := _FRAME.findall(part)))


class FramesTest(FaultRows):
    """Each failing test of ``frames``, by the frames that its text shows."""

    launcher = "forkserver"

    def check_each(self, case: Any, **environ: str) -> None:
        """Plays each test and checks its frames."""
        for method, expected in frames.FRAMES.items():
            with self.subTest(method):
                played = self.play(case, method, **environ)
                self.assertEqual(functions(played.text), expected, played.text)

    def test_without_ranks(self) -> None:
        """A test in the process of unittest."""
        for method, expected in frames.FRAMES.items():
            with self.subTest(method):
                result = unittest.TestResult()
                frames.InParent(method).run(result)
                ((_, text),) = result.errors + result.failures
                self.assertEqual(functions(text), expected, text)

    def test_in_a_worker(self) -> None:
        """A test in a worker of ``run_tests.py``."""
        for method, expected in frames.FRAMES.items():
            with self.subTest(method):
                result = RecordingResult()
                frames.InParent(method).run(result)
                text = result.running.record().details
                self.assertEqual(functions(text), expected, text)

    def test_fresh(self) -> None:
        """A test on a rank that is a new process."""
        self.check_each(frames.OnProcess)

    def test_pooled(self) -> None:
        """A test on a rank that is kept, and after its failure tried on a fresh one."""
        self.addCleanup(pool.retire_pool)
        self.check_each(frames.OnProcess, HARNESS_RANKS="pooled")

    def test_threads(self) -> None:
        """A test on a rank that is a thread."""
        self.check_each(frames.OnThread)

    def test_pytest(self) -> None:
        """pytest shows none of the harness's files."""
        names = [f"{frames.__file__}::InParent::{method}" for method in frames.FRAMES]
        command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", *names)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertIn(f"{len(names)} failed", done.stdout)
        self.assertNotRegex(done.stdout, rf"(?m)^harness{re.escape(os.sep)}\S+:\d+: in ")


if __name__ == "__main__":
    unittest.main()
