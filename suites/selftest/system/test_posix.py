"""Tests the questions about processes: which have ended, and which children there are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import psutil

from harness.system import posix

ROOT = str(Path(__file__).resolve().parents[3])


class StoppedTest(unittest.TestCase):
    """``is_stopped``, by the state of a real process."""

    def test_stopped_and_continued(self) -> None:
        """A process is stopped from SIGSTOP to SIGCONT, and neither before nor after."""
        sleeper = subprocess.Popen(["sleep", "3600"])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        found = [posix.is_stopped(sleeper.pid)]
        for signum, event in ((signal.SIGSTOP, os.WSTOPPED), (signal.SIGCONT, os.WCONTINUED)):
            sleeper.send_signal(signum)
            os.waitid(os.P_PID, sleeper.pid, event)
            found.append(posix.is_stopped(sleeper.pid))
        self.assertEqual(found, [False, True, False])

    def test_no_process(self) -> None:
        """A process that has been reaped is not stopped."""
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.assertFalse(posix.is_stopped(ended.pid))


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
                """Does nothing."""

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


class StateTest(unittest.TestCase):
    """What a process is doing."""

    def test_states(self) -> None:
        """A process that runs is working; one that is stopped, has ended or is gone is not."""
        child = subprocess.Popen(["sleep", "3600"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        self.assertTrue(posix.is_working(os.getpid()))
        for number, until, zombie in (
            (signal.SIGSTOP, os.WSTOPPED, False),
            (signal.SIGKILL, os.WEXITED, True),
        ):
            child.send_signal(number)
            os.waitid(os.P_PID, child.pid, until | os.WNOWAIT)
            self.assertEqual((posix.is_working(child.pid), posix.is_zombie(child.pid)), (False, zombie))
        child.wait()
        self.assertEqual((posix.is_working(child.pid), posix.is_zombie(child.pid)), (False, False))


# A child of which one thread, of the name that it is given, works; and then the main thread sleeps.
_BUSY = """
import ctypes, sys, threading
def work():
    ctypes.CDLL(None).prctl(15, sys.argv[1].encode())  # PR_SET_NAME
    print("named", flush=True)
    while True:
        pass
threading.Thread(target=work, daemon=True).start()
sys.stdin.read()
"""


class CouldRunTest(unittest.TestCase):
    """``could_run``: whether a process can go on by itself."""

    def busy(self, name: str) -> int:
        """Starts a process with a thread of this name that works, and returns its id."""
        child = subprocess.Popen(
            [sys.executable, "-c", _BUSY, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(child.__exit__, None, None, None)
        self.addCleanup(child.kill)
        assert child.stdout is not None
        self.assertEqual(child.stdout.readline(), "named\n")
        return child.pid

    def test_asleep(self) -> None:
        """A process that sleeps could not run, nor one that is gone; this one could, but for its threads."""
        child = subprocess.Popen(["sleep", "3600"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        while posix.could_run(child.pid):
            os.sched_yield()  # it is on its way to its sleep
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.assertFalse(posix.could_run(ended.pid))
        self.assertTrue(posix.could_run("self"))

    def test_serving_threads(self) -> None:
        """A thread that works for other processes does not count, by the name that it has."""
        name = "serve (it) x"
        pid = self.busy(name)
        self.assertTrue(posix.could_run(pid))
        self.assertTrue(posix.could_run(pid, serving=("sleeps",)))
        while posix.could_run(pid, serving=("sleeps", "serve (it")):
            os.sched_yield()  # its main thread is on its way to its sleep


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


class FlushTest(unittest.TestCase):
    """``flush_streams``, which is called while a test's own streams may be in place."""

    def test_streams(self) -> None:
        """Both are flushed, whatever the first does."""
        for first in (None, mock.Mock(flush=mock.Mock(side_effect=RuntimeError))):
            second = mock.Mock()
            with self.subTest(first), mock.patch.multiple(sys, stdout=first, stderr=second):
                posix.flush_streams()
            second.flush.assert_called_once_with()


if __name__ == "__main__":
    unittest.main()
