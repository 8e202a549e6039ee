"""Tests that the ranks, servers and children of a parent end with it when it is killed or interrupted."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

from suites.selftest.faults import orphans
from suites.selftest.faults.base import ANNOUNCE
from suites.selftest.faults.processes import Announced
from suites.selftest.faults.rows import PATIENT, OnForkServer, OnSpawn, Rows

ROOT = str(Path(__file__).resolve().parents[4])
# Seconds for everything of a dead parent to be gone: a tenth of one on an idle machine, more on a busy one,
# and far less than the hour for which the ranks wait.
GONE_S = 30.0


class ParentRows(Rows):
    """A test run in its own process, with ranks that wait for ever."""

    @contextlib.contextmanager
    def running(self, announced: Announced, *tests: str) -> Iterator[subprocess.Popen[str]]:
        """Yields ``python -m unittest`` of these tests, in its own session, once its ranks are all there."""
        names = [f"{orphans.__name__}.Orphans.{test}" for test in tests]
        with subprocess.Popen(
            [sys.executable, "-m", "unittest", *names],
            env={**os.environ, **PATIENT, "HARNESS_LAUNCHER": self.launcher, ANNOUNCE: announced.path},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                announced.wait_for(orphans.ANNOUNCED)
                yield process
            finally:
                process.kill()

    def remove_scratch(self) -> None:
        """Removes the scratch directory, which a killed process cannot remove."""
        for directory in Path(self.temporary).glob("harness-*"):
            shutil.rmtree(directory)

    def test_killed(self) -> None:
        """Nothing survives a parent that is killed by SIGKILL."""
        self.addCleanup(self.remove_scratch)
        with Announced(self.temporary) as announced, self.running(announced, "test_wait") as process:
            process.kill()
            process.wait()
            self.assertEqual(announced.survivors(GONE_S), [])

    def test_terminated(self) -> None:
        """Nothing survives a parent that is ended by SIGTERM."""
        self.addCleanup(self.remove_scratch)
        with Announced(self.temporary) as announced, self.running(announced, "test_wait") as process:
            process.terminate()
            process.wait()
            self.assertEqual(announced.survivors(GONE_S), [])

    def test_interrupted(self) -> None:
        """Ctrl-C, which the whole process group gets, prints one traceback and leaves no process or file."""
        with Announced(self.temporary) as announced, self.running(announced, "test_wait") as process:
            os.killpg(process.pid, signal.SIGINT)
            text, _ = process.communicate()
            self.assertEqual(announced.survivors(GONE_S), [])
        self.assertEqual(process.returncode, -signal.SIGINT, text)
        self.assertEqual(text.count("Traceback (most recent call last)"), 1, text)
        self.assertEqual(text.count("KeyboardInterrupt"), 1, text)

    def test_interrupted_twice(self) -> None:
        """A second Ctrl-C leaves no process, and at most the directory if it hits the exit handlers."""
        self.addCleanup(self.remove_scratch)
        with Announced(self.temporary) as announced, self.running(announced, "test_wait") as process:
            os.killpg(process.pid, signal.SIGINT)
            os.killpg(process.pid, signal.SIGINT)
            process.communicate()
            self.assertEqual(announced.survivors(GONE_S), [])


class ParentsOnForkServer(ParentRows, OnForkServer):
    """Runs the tests on the fork server."""


class ParentsOnSpawn(ParentRows, OnSpawn):
    """Runs the tests on new interpreters."""


if __name__ == "__main__":
    unittest.main()
