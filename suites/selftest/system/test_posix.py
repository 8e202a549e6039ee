"""Questions about processes: which have ended, and whether a fork would miss a thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import unittest
import warnings
from pathlib import Path
from unittest import mock

import psutil

from harness.system import posix

ROOT = str(Path(__file__).resolve().parents[3])


class StillRunningTest(unittest.TestCase):
    """One wait for several processes."""

    def setUp(self) -> None:
        self.sleeper = subprocess.Popen(["sleep", "3600"])
        self.addCleanup(self.sleeper.wait)
        self.addCleanup(self.sleeper.kill)

    def test_names_those_that_run(self) -> None:
        """Ended ones are left out, reaped or not; so are numbers that nobody has."""
        ended = subprocess.Popen(["true"])
        self.addCleanup(ended.wait)
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        reaped = subprocess.Popen(["true"])
        reaped.wait()
        pids = [reaped.pid, self.sleeper.pid, ended.pid]
        self.assertEqual(posix.still_running(pids, 0.0), [self.sleeper.pid])

    def test_waits_once_for_all(self) -> None:
        """The time is what all of them get together, not each in turn."""
        polled: list[float] = []

        class Poll:
            """Stands in for ``select.poll``: lets the time that it is given pass, and nothing happens."""

            def register(self, fd: int, events: int) -> None:
                """Nothing to do."""

            def poll(self, milliseconds: float) -> list[object]:
                """The clock goes on by that much."""
                polled.append(milliseconds)
                return []

        with (
            mock.patch("select.poll", Poll),
            mock.patch("time.monotonic", lambda: sum(polled) / 1000),
        ):
            self.assertEqual(len(posix.still_running([self.sleeper.pid] * 3, 2.0)), 3)
        self.assertEqual(polled, [2000.0, 0.0, 0.0])


class ForkableTest(unittest.TestCase):
    """Whether threads would be missing in a child."""

    def ask(self, code: str) -> str:
        """What a new interpreter prints that starts with such code."""
        code += "\nfrom harness.system import posix; print(posix.os_threads() > 1, posix.forkable())"
        environ = {n: v for n, v in os.environ.items() if not n.endswith("_NUM_THREADS")}
        run = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**environ, "OPENBLAS_NUM_THREADS": "2"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return run.stdout.strip()

    def test_one_thread(self) -> None:
        """Nothing to miss."""
        self.assertEqual(self.ask(""), "False True")

    def test_a_pool_that_ends_before_a_fork(self) -> None:
        """OpenBLAS's does."""
        answer = self.ask("import numpy")
        if answer == "False True":
            self.skipTest("numpy starts no pool here")
        self.assertEqual(answer, "True True")

    def test_a_thread(self) -> None:
        """A thread of Python's does not."""
        code = (
            "import threading, time; threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()"
        )
        self.assertEqual(self.ask(code), "True False")

    def test_no_warning(self) -> None:
        """Python 3.12 and later warn of a fork beside threads, which is an error under ``-W error``."""
        fork = os.fork

        def warning_fork() -> int:
            warnings.warn("use of fork() may lead to deadlocks", DeprecationWarning, stacklevel=2)
            return fork()

        done = threading.Event()
        thread = threading.Thread(target=done.wait)
        thread.start()
        try:
            with mock.patch("os.fork", warning_fork), warnings.catch_warnings():
                warnings.simplefilter("error")
                self.assertFalse(posix.forkable())
        finally:
            done.set()
            thread.join()


class ChildrenTest(unittest.TestCase):
    """Who this process's children are."""

    def test_children(self) -> None:
        """Those that psutil finds."""
        child = subprocess.Popen(["sleep", "3600"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        self.assertIn(child.pid, posix.children())
        self.assertCountEqual(posix.children(), [c.pid for c in psutil.Process().children()])

    def test_without_the_kernels_list(self) -> None:
        """A kernel may be built without it."""
        child = subprocess.Popen(["sleep", "3600"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        with mock.patch.object(posix, "_CHILDREN", "/proc/{pid}/task/{pid}/nothing-of-that-name"):
            self.assertIn(child.pid, posix.children())


if __name__ == "__main__":
    unittest.main()
