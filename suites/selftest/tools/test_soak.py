"""Tests soaks of small modules: a flaky test is reported, and Ctrl-C ends the run and the load beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import psutil

from suites.selftest.faults.base import ANNOUNCE
from suites.selftest.faults.processes import Announced, still_there
from suites.selftest.tools.planted import flaky

TREE = Path(__file__).resolve().parents[3]
# Seconds until a broken tool is given up; no healthy one takes that long.
PATIENCE_S = 300.0
# Seconds for the processes that a soak has killed to be gone.
GONE_S = 30.0


class SoakTest(unittest.TestCase):
    """The tool as users start it, on planted tests."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)

    def start(self, name: str, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        options = ("--shards=1", f"--report-dir={self.root / 'kept'}", "--only", f"{flaky.__name__}.{name}")
        process = subprocess.Popen(
            [sys.executable, "tools/soak.py", *options, *arguments],
            cwd=TREE,
            env={**os.environ, flaky.SEEN: str(self.root / "seen"), **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_a_flaky_test_is_reported(self) -> None:
        """Of two rounds the first fails and is kept, and the report counts both."""
        soak = self.start("FlakyTest", "--load=1", "--rounds=2", "--seed=3")
        out, _ = soak.communicate(timeout=PATIENCE_S)
        self.assertEqual(soak.returncode, 1, out)
        self.assertIn(
            f"{flaky.__name__}.FlakyTest.test_sometimes: failed in 1 of 2 runs\n    failed: Asser", out
        )
        self.assertIn(f"files: {self.root / 'kept' / 'round-0001'}\n", out)
        self.assertIn("--seed 3 --first 1 --rounds 1", out)
        counts = "runs of tests: 4, rounds: 2, of which broke: 0"
        self.assertTrue(out.endswith(f"1 of 2 tests failed at least once ({counts})\n"), out)
        self.assertEqual(sorted(os.listdir(self.root / "kept")), ["round-0001", "state"])

    def test_ctrl_c_gives_the_report_so_far(self) -> None:
        """Ctrl-C in the middle of a test ends the run, the test's process and the load, and then reports."""
        with Announced(str(self.root)) as announced:
            soak = self.start("WaitingTest", "--load=1", "--seed=1", **{ANNOUNCE: announced.path})
            announced.wait_for(1)
            below = [process.pid for process in psutil.Process(soak.pid).children(recursive=True)]
            soak.send_signal(signal.SIGINT)
            out, _ = soak.communicate(timeout=PATIENCE_S)
            self.assertEqual(announced.survivors(GONE_S), [])
        self.assertGreaterEqual(len(below), 4, "busy loops, the controller, its zygote and a worker")
        self.assertEqual(still_there(below, GONE_S), [])
        self.assertEqual(soak.returncode, 0, out)
        self.assertIn("runs of tests: 0, rounds: 1, of which broke: 0; the last one was cut short", out)

    def test_the_end_of_the_time(self) -> None:
        """A run that goes on when the time is over is ended, and a minute may be a part of one."""
        with Announced(str(self.root)) as announced:
            soak = self.start("WaitingTest", "--load=0", "--minutes=0.01", **{ANNOUNCE: announced.path})
            out, _ = soak.communicate(timeout=PATIENCE_S)
        self.assertEqual(soak.returncode, 0, out)
        self.assertIn("the last one was cut short", out)

    def test_wrong_arguments(self) -> None:
        """A name that nothing has and a number below 1 are refused by exit code 2."""
        for name, arguments in (("NoSuchTest", []), ("FlakyTest", ["--rounds=-1"])):
            with self.subTest(name):
                soak = self.start(name, *arguments)
                out, _ = soak.communicate(timeout=PATIENCE_S)
                self.assertEqual(soak.returncode, 2, out)
                self.assertIn("soak: ", out)


if __name__ == "__main__":
    unittest.main()
