"""Tests looks that a person asks for while ``run_tests.py`` runs: by SIGUSR1, and by Enter at a terminal."""

from __future__ import annotations

import os
import pty
import signal
import unittest
from collections.abc import Callable
from time import monotonic

from harness.look.report import SeenTest
from harness.runner.look_requests import Looks, has_terminal
from suites.selftest.look.blocked import Blocked
from suites.selftest.runner.runs import PATIENCE_S, RUN_TESTS, RunnerCase, journal_records
from suites.selftest.runner.test_cli_debugging import Terminal
from suites.selftest.runner.test_interrupts import read_until


class RunTest(unittest.TestCase):
    """SIGUSR1 to real runs."""

    def test_signal(self) -> None:
        """What runs, since when and where, three times, without any change to the verdicts."""
        blocked = Blocked(self, str(RUN_TESTS), "test_blocked", "-q", "--jobs", "1", "-k", "T.test_ranks")
        blocked.await_wait()
        for _ in range(3):
            blocked.process.send_signal(signal.SIGUSR1)
            said = read_until(blocked.process, lambda line: "rank 1: in no communication" in line)
            self.assertRegex(said, r"-- \d+:\d\d: 1 test runs, 0 attempts ended\n")
            self.assertRegex(
                said, r"test_blocked\.T\.test_ranks for [0-9.]+ s \(worker 1, process \d+, 2 ranks"
            )
            self.assertRegex(said, "rank 0: waiting in all_reduce #2 of the default group .*, for rank 1")
        self.assertIn("1 passed, 0 failed", blocked.go_on())
        self.assertEqual(blocked.process.returncode, 0)
        self.assertEqual([r.status.value for r in journal_records(blocked.directory)], ["passed"])

    def test_without_ranks(self) -> None:
        """A test without ranks is named, and is not interrupted either."""
        blocked = Blocked(self, str(RUN_TESTS), "test_blocked", "--jobs", "1", "-k", "Alone.test_alone")
        blocked.await_wait()
        blocked.process.send_signal(signal.SIGUSR1)
        read_until(blocked.process, lambda line: line.startswith("test_blocked.Alone.test_alone for "))
        self.assertIn("1 passed, 0 failed", blocked.go_on())


class TerminalTest(RunnerCase):
    """Enter at the terminal of a run."""

    def test_enter(self) -> None:
        """Enter shows what runs, above the live part where there is one; the run goes on."""
        self.write(
            "test_t",
            """
            class T(unittest.TestCase):
                def test_1(self):
                    os.mkfifo("gate")
                    open("gate").close()
            """,
        )
        for term in ("dumb", "xterm"):
            with self.subTest(term=term):
                (self.directory / "gate").unlink(missing_ok=True)
                command = self.command("test_t", "--jobs", "1", "--color", "never")
                terminal = Terminal(command, self.environ(TERM=term, COLUMNS="120"), str(self.directory))
                terminal.read_until("1 test")
                deadline = monotonic() + PATIENCE_S
                while not (self.directory / "gate").exists() and monotonic() < deadline:
                    os.sched_yield()
                terminal.type("")
                said = terminal.read_until("test_t.T.test_1 for ")
                self.assertIn("1 test runs, 0 attempts ended", said)
                with open(self.directory / "gate", "w"):
                    self.assertEqual(terminal.close(), 0)


class LooksTest(unittest.TestCase):
    """``Looks`` in this process."""

    def test_answer(self) -> None:
        """A look is asked for once, wakes who waits when it is ready, and is then taken once."""
        ready = []
        with Looks() as looks:
            looks.watched_by(lambda fd, take: ready.append((fd, take)), lambda fd: None)
            ((fd, take),) = ready
            self.assertFalse(looks.asked)
            os.kill(os.getpid(), signal.SIGUSR1)
            self.assertTrue(looks.asked)
            take()
            looks.begin([SeenTest("m.T.test", os.getpid(), 0.0)], 7, monotonic())
            os.set_blocking(fd, True)
            take()  # waits for it
            lines = looks.answers()
            self.assertEqual((lines[0], looks.asked), ("-- 0:00: 1 test runs, 7 attempts ended", False))
            self.assertTrue(lines[1].startswith("m.T.test for "))
            self.assertEqual(looks.answers(), [])

    def test_handler_is_restored(self) -> None:
        """The handler of the signal is as before when the context is left."""
        before = signal.getsignal(signal.SIGUSR1)
        with Looks():
            self.assertNotEqual(signal.getsignal(signal.SIGUSR1), before)
        self.assertEqual(signal.getsignal(signal.SIGUSR1), before)

    def test_lines_of_others(self) -> None:
        """Nothing is read of a pipe, or of a terminal in whose foreground another process group is."""
        near, far = pty.openpty()
        read, write = os.pipe()
        for fd in (near, far, read, write):
            self.addCleanup(os.close, fd)
        self.assertFalse(has_terminal(read))
        self.assertFalse(has_terminal(far))  # it controls no process
        os.write(near, b"ls\n")
        removed: list[int] = []
        with Looks(far) as looks:
            watched: dict[int, Callable[[], object]] = {}
            looks.watched_by(watched.__setitem__, removed.append)
            watched[far]()
            self.assertEqual((removed, looks.asked), ([far], False))


if __name__ == "__main__":
    unittest.main()
