"""Ranks that leave something behind: threads, processes, a changed environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from suites.selftest.faults.base import FaultyCase, announce

SLEEPER = [sys.executable, "-S", "-c", "import time; time.sleep(3600)"]


class Leaves(FaultyCase):
    """Rank 1 leaves behind what the method's name says."""

    def test_thread(self) -> None:
        """Rank 1 leaves a thread that would never end."""
        if self.rank == 1:
            threading.Thread(target=time.sleep, args=(3600,)).start()

    def test_daemon_thread(self) -> None:
        """Rank 1 leaves a daemon thread that prints while the rank exits."""
        if self.rank == 1:
            threading.Thread(target=_chatter, daemon=True).start()

    def test_fork(self) -> None:
        """Each rank forks children that leave the test body by sys.exit, by a failure and by returning."""
        for end in ("exit", "fail", "go on"):
            pid = os.fork()
            if pid == 0:
                if end == "exit":
                    sys.exit(0)
                self.assertNotEqual(end, "fail")
                return
            os.waitpid(pid, 0)

    def test_child(self) -> None:
        """Rank 1 leaves a child process that holds the rank's output open."""
        if self.rank == 1:
            subprocess.Popen(SLEEPER)

    def test_child_that_ignores_signals(self) -> None:
        """Rank 1 leaves a child process that only SIGKILL ends."""
        if self.rank == 1:
            _fork(_ignore_and_wait)

    def test_session_leader(self) -> None:
        """Rank 1 leaves a child in its own session, which no signal to the rank's process group reaches."""
        if self.rank == 1:
            subprocess.Popen(SLEEPER, start_new_session=True)

    def test_daemon(self) -> None:
        """Rank 1 leaves a daemon, forked twice, in its own session without streams; it announces the pid."""
        if self.rank == 1:
            read, write = os.pipe()
            _fork(_daemonise, read, write)
            os.close(write)
            with open(read) as pids:
                announce(int(pids.read()))

    def test_child_that_ends_by_itself(self) -> None:
        """Rank 1 leaves a child process that is about to end by itself, which deserves no warning."""
        if self.rank == 1:
            subprocess.Popen(["true"])

    def test_child_and_crash(self) -> None:
        """Rank 1 dies and leaves a child process."""
        if self.rank == 1:
            subprocess.Popen(SLEEPER)
            os.kill(os.getpid(), signal.SIGKILL)

    def test_environment(self) -> None:
        """Each rank changes its environment, directory, umask, path, arguments and SIGTERM handler."""
        os.environ["LEFT_BY_A_RANK"] = "1"
        os.environ.pop("PATH", None)
        os.chdir("/")
        os.umask(0o777)
        sys.path.insert(0, "/nowhere")
        sys.argv[:] = ["changed"]
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def test_environment_is_whole(self) -> None:
        """The changes of ``test_environment`` before this test are gone."""
        self.assertNotIn("LEFT_BY_A_RANK", os.environ)
        self.assertIn("PATH", os.environ)
        self.assertEqual(os.getcwd(), os.environ["EXPECTED_CWD"])
        self.assertNotIn("/nowhere", sys.path)
        self.assertNotEqual(sys.argv, ["changed"])
        self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)
        self.assertNotEqual(os.umask(0o022), 0o777)


def _fork(body: Callable[..., None], *arguments: int) -> None:
    if os.fork() == 0:
        try:
            body(*arguments)
        finally:
            os._exit(0)


def _ignore_and_wait() -> None:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    time.sleep(3600)


def _daemonise(read: int, write: int) -> None:
    os.close(read)
    os.setsid()
    if os.fork() == 0:
        os.write(write, str(os.getpid()).encode())
        os.closerange(0, 1 << 10)
        time.sleep(3600)


def _chatter() -> None:
    while True:
        os.write(1, b"still here\n")
