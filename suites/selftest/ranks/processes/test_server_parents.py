"""Parents that are killed or interrupted: ranks, servers and whatever they started go with them."""

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
# Seconds after a parent's death by which everything of its has to be gone (the requirement, not a guess).
GONE_S = 2.0


class ParentRows(Rows):
    """A test run in a process of its own, with ranks that wait for ever."""

    @contextlib.contextmanager
    def running(self, announced: Announced, *tests: str) -> Iterator[subprocess.Popen[str]]:
        """``python -m unittest`` of these tests, in a session of its own, until its ranks are all there."""
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
        """The one thing that a killed process cannot remove."""
        for directory in Path(self.temporary).glob("harness-*"):
            shutil.rmtree(directory)

    def test_killed(self) -> None:
        """SIGKILL: nobody can clean up, and still nothing survives."""
        self.addCleanup(self.remove_scratch)
        with Announced(self.temporary) as announced, self.running(announced, "test_wait") as process:
            process.kill()
            process.wait()
            self.assertEqual(announced.survivors(GONE_S), [])

    def test_terminated(self) -> None:
        """SIGTERM's default action is no more polite."""
        self.addCleanup(self.remove_scratch)
        with Announced(self.temporary) as announced, self.running(announced, "test_wait") as process:
            process.terminate()
            process.wait()
            self.assertEqual(announced.survivors(GONE_S), [])

    def test_interrupted(self) -> None:
        """Ctrl-C at a terminal reaches the whole process group: one report, nothing left, no file either."""
        with Announced(self.temporary) as announced, self.running(announced, "test_wait") as process:
            os.killpg(process.pid, signal.SIGINT)
            text, _ = process.communicate()
            self.assertEqual(announced.survivors(GONE_S), [])
        self.assertEqual(process.returncode, -signal.SIGINT, text)
        self.assertEqual(text.count("Traceback (most recent call last)"), 1, text)
        self.assertEqual(text.count("KeyboardInterrupt"), 1, text)

    def test_interrupted_twice(self) -> None:
        """Impatience leaves nothing behind either, but the directory, if exit handlers are hit."""
        self.addCleanup(self.remove_scratch)
        with Announced(self.temporary) as announced, self.running(announced, "test_wait") as process:
            os.killpg(process.pid, signal.SIGINT)
            os.killpg(process.pid, signal.SIGINT)
            process.communicate()
            self.assertEqual(announced.survivors(GONE_S), [])


class ParentsOnForkServer(ParentRows, OnForkServer):
    """On the fork server."""


class ParentsOnSpawn(ParentRows, OnSpawn):
    """On new interpreters."""


if __name__ == "__main__":
    unittest.main()
