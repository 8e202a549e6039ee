"""Tests the questions about processes: which have ended, and whether a fork would miss a thread."""

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
    """``still_running``, which waits once for several processes."""

    def setUp(self) -> None:
        self.sleeper = subprocess.Popen(["sleep", "3600"])
        self.addCleanup(self.sleeper.wait)
        self.addCleanup(self.sleeper.kill)

    def test_names_those_that_run(self) -> None:
        """It names the processes that run, and leaves out ended ones, reaped or not, and unused pids."""
        ended = subprocess.Popen(["true"])
        self.addCleanup(ended.wait)
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        reaped = subprocess.Popen(["true"])
        reaped.wait()
        pids = [reaped.pid, self.sleeper.pid, ended.pid]
        self.assertEqual(posix.still_running(pids, 0.0), [self.sleeper.pid])

    def test_waits_once_for_all(self) -> None:
        """The time limit holds for all processes together and not for each in turn."""
        polled: list[float] = []

        class Poll:
            """Stands in for ``select.poll``: the time that it is given passes and nothing happens."""

            def register(self, fd: int, events: int) -> None:
                """Ignores the descriptor."""

            def poll(self, milliseconds: float) -> list[object]:
                """Advances the clock by ``milliseconds``."""
                polled.append(milliseconds)
                return []

        with (
            mock.patch("select.poll", Poll),
            mock.patch("time.monotonic", lambda: sum(polled) / 1000),
        ):
            self.assertEqual(len(posix.still_running([self.sleeper.pid] * 3, 2.0)), 3)
        self.assertEqual(polled, [2000.0, 0.0, 0.0])


class ForkableTest(unittest.TestCase):
    """Whether a forked child would miss threads."""

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
        """A process with one thread can be forked."""
        self.assertEqual(self.ask(""), "False True")

    def test_a_pool_that_ends_before_a_fork(self) -> None:
        """OpenBLAS's pool, which ends before a fork, does not prevent one."""
        answer = self.ask("import numpy")
        if answer == "False True":
            self.skipTest("numpy starts no pool here")
        self.assertEqual(answer, "True True")

    def test_a_thread(self) -> None:
        """A Python thread prevents a fork."""
        code = (
            "import threading, time; threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()"
        )
        self.assertEqual(self.ask(code), "True False")

    def test_no_warning(self) -> None:
        """Asking causes no warning of Python 3.12 and later about a fork beside threads."""
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
    """The children of this process."""

    def test_children(self) -> None:
        """They are those that psutil finds."""
        child = subprocess.Popen(["sleep", "3600"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        self.assertIn(child.pid, posix.children())
        self.assertCountEqual(posix.children(), [c.pid for c in psutil.Process().children()])

    def test_without_the_kernels_list(self) -> None:
        """They are found also where the kernel is built without its list of children."""
        child = subprocess.Popen(["sleep", "3600"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        with mock.patch.object(posix, "_CHILDREN", "/proc/{pid}/task/{pid}/nothing-of-that-name"):
            self.assertIn(child.pid, posix.children())


if __name__ == "__main__":
    unittest.main()
