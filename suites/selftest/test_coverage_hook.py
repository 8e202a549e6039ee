"""Self-tests of harness.coverage_hook: lines that run only in workers and ranks are covered."""

from __future__ import annotations

import json
import subprocess
import sys
import unittest

from suites.selftest.runner import runs
from suites.selftest.runner.runs import PATIENCE_S, RUN_TESTS, RunnerCase

LIBRARY = """\
def in_worker():
    return 1
def in_rank():
    return 2
def in_a_rank_that_is_ended():
    return 3
def in_a_worker_that_is_ended():
    return 4
def nowhere():
    return 5
"""
TESTS = """
    import library
    from harness.cases.multiprocess import MultiProcessTestCase

    class Single(unittest.TestCase):
        def test_worker(self): library.in_worker()
        def test_hang(self): library.in_a_worker_that_is_ended(); threading.Event().wait()

    class Ranks(MultiProcessTestCase):
        world_size = 2
        def test_rank(self): library.in_rank()
        def test_ended(self):
            library.in_a_rank_that_is_ended()
            if self.rank == 1: self.fail("so that rank 0 is ended")
            threading.Event().wait()
    """


class CoverageTest(RunnerCase):
    """A run under ``coverage run --parallel-mode``, combined by ``coverage combine``."""

    def test_lines_of_every_process(self) -> None:
        """A line that ran in any process is covered, and a line that ran in none is not."""
        (self.directory / "library.py").write_text(LIBRARY)
        self.write("test_c", TESTS)
        self.coverage(
            "run", "--parallel-mode", "--source=.", str(RUN_TESTS), "test_c", "--timeout", "5", codes=(1,)
        )
        records = {r.id.rsplit(".", 1)[-1]: r.status.value for r in runs.journal_records(self.directory)}
        expected = {
            "test_worker": "passed",
            "test_hang": "timed out",
            "test_rank": "passed",
            "test_ended": "failed",
        }
        self.assertEqual(records, expected)
        self.coverage("combine", "-q")
        self.coverage("json", "-q", "-o", "coverage.json")
        report = json.loads((self.directory / "coverage.json").read_text())
        self.assertEqual(report["files"]["library.py"]["missing_lines"], [10])
        self.assertNotIn(5, report["files"]["test_c.py"]["missing_lines"])

    def test_ranks_that_are_new_interpreters(self) -> None:
        """They inherit no measurement from the process of unittest; its environment has them begin one."""
        (self.directory / "library.py").write_text(LIBRARY)
        self.write("test_c", TESTS)
        command = ("run", "--parallel-mode", "--source=.", "-m", "unittest", "test_c.Ranks.test_rank")
        self.coverage(*command, HARNESS_LAUNCHER="spawn")
        self.coverage("combine", "-q")
        self.coverage("json", "-q", "-o", "coverage.json")
        report = json.loads((self.directory / "coverage.json").read_text())
        self.assertEqual(report["files"]["library.py"]["missing_lines"], [2, 6, 8, 10])

    def coverage(self, *argv: str, codes: tuple[int, ...] = (0,), **variables: str) -> None:
        """Runs coverage in the test's directory."""
        done = subprocess.run(
            [sys.executable, "-m", "coverage", *argv],
            cwd=self.directory,
            # Not every coverage puts the directory of the script that it runs on the path.
            env=self.environ(PYTHONPATH=str(RUN_TESTS.parent), **variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        self.assertIn(done.returncode, codes, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
