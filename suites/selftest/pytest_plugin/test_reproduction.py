"""Tests the command that runs a test again: which options it keeps, and that it runs that test alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest

from harness.pytest_plugin.reproduction import conditions
from suites.selftest.pytest_plugin.runs import PytestCase


class ConditionsTest(unittest.TestCase):
    """``conditions``, which chooses among a command line's options."""

    def test_table(self) -> None:
        """Options that can change a verdict stay, with their values; selection, order and output go."""
        for argv, kept in (
            ("-x -v tests -k some --lf -n 4 --durations 3", ""),
            ("--ranks pooled --drop-in tests", "--ranks pooled --drop-in"),
            ("--rank-timeout=3 --shard 1/2 --shard-timings=f", "--rank-timeout=3"),
            ("-p no:randomly -pno:x -c pytest.ini -o a=b", "-p no:randomly -pno:x -c pytest.ini -o a=b"),
            ("--import-mode=importlib --tb short -W error", "--import-mode=importlib -W error"),
            ("--runxfail -- --drop-in", "--runxfail"),
            ("-p", "-p"),
        ):
            with self.subTest(argv):
                self.assertEqual(" ".join(conditions(argv.split())), kept)


class CommandTest(PytestCase):
    """The command that a failure names."""

    def test_it_runs_the_test(self) -> None:
        """From the directory of the run, below the root too; a case's own command comes first."""
        (self.project / "pytest.ini").write_text("[pytest]\n")
        (self.project / "a b").mkdir()
        self.write(
            "test_it.py",
            """
            class T(MultiThreadedTestCase):
                world_size = 2
                def test_1(self): self.fail("in a rank")
                def test_2(self): pass

            class Own(T):
                def rerun_command(self): return "my command"
            """,
        )
        (self.project / "test_it.py").rename(self.project / "a b" / "test_it.py")
        self.project = self.project / "a b"
        run = self.pytest("--ranks", "threads", "--rank-timeout=100")
        self.assertEqual(run.counts, {"failed": 2, "passed": 2}, run.out)
        first, second = re.findall(r"reproduce: (.*)", run.out)
        self.assertEqual(second, "my command")
        self.assertIn("pytest test_it.py::T::test_1 ", first)
        path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        again = subprocess.run(
            first,
            shell=True,
            cwd=self.project,
            env=self.environ(PATH=path),
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertIn("1 failed", again.stdout)
        self.assertIn("in a rank", again.stdout)


if __name__ == "__main__":
    unittest.main()
