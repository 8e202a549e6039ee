"""Ranks that leave something behind: threads, processes, a changed environment, garbage on their channel."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from harness import RankOutcome, Status
from harness.protocol import Report, encode
from harness.wire import send_frame
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


class Lies(FaultyCase):
    """Rank 1 writes to the channel on which it reports, once rank 0 has reported."""

    arrivals = 2

    def setUpRank(self) -> None:
        if self.rank == 0:
            self.leave()
        else:
            self.follow()

    def channel(self) -> socket.socket:
        """Returns the rank's channel, which is the only socket that a rank has."""
        for name in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                    return socket.socket(fileno=os.dup(int(name)))
            except FileNotFoundError:
                continue
        raise AssertionError("no socket")

    def test_garbage(self) -> None:
        """Rank 1 sends plain text, like a stray print."""
        if self.rank == 1:
            self.channel().sendall(b"hello, who is there?")

    def test_garbage_and_hang(self) -> None:
        """Rank 1 sends plain text and then hangs."""
        if self.rank == 1:
            self.channel().sendall(b"hello, who is there?")
            time.sleep(3600)

    def test_framed_garbage(self) -> None:
        """Rank 1 sends a frame that holds no message."""
        if self.rank == 1:
            send_frame(self.channel(), b'{"kind": "Report"')

    def test_wrong_message(self) -> None:
        """Rank 1 sends a message that only the server sends."""
        if self.rank == 1:
            send_frame(self.channel(), b'{"kind": "Swept", "leaked": []}')

    def test_another_rank(self) -> None:
        """Rank 1 sends a report in the name of rank 0."""
        if self.rank == 1:
            send_frame(self.channel(), encode(Report(RankOutcome(0, Status.PASSED))))

    def test_no_rank_at_all(self) -> None:
        """Rank 1 sends a report for a rank that does not exist."""
        if self.rank == 1:
            send_frame(self.channel(), encode(Report(RankOutcome(77, Status.PASSED))))

    def test_not_a_mapping(self) -> None:
        """Rank 1 sends a report whose outcome is not a mapping."""
        if self.rank == 1:
            send_frame(self.channel(), b'{"kind": "Report", "outcome": [1, 2]}')

    def test_wrong_fields(self) -> None:
        """Rank 1 sends a report with a field of the wrong type, which has to be refused before it is used."""
        if self.rank == 1:
            frame = encode(Report(RankOutcome(1, Status.PASSED, duration_s=1.5)))
            lie = frame.replace(b'"duration_s": 1.5', b'"duration_s": "long"')
            assert lie != frame
            send_frame(self.channel(), lie)

    def test_passes_then_fails(self) -> None:
        """Rank 1 sends a report that it passed, and then fails."""
        if self.rank == 1:
            send_frame(self.channel(), encode(Report(RankOutcome(1, Status.PASSED))))
            self.fail("the truth")

    def test_closes_everything(self) -> None:
        """Rank 1 closes every descriptor that it did not open, as daemons do."""
        if self.rank == 1:
            os.closerange(3, 1 << 16)

    def test_blocks_its_channel(self) -> None:
        """Rank 1 makes its channel non-blocking and reports a megabyte."""
        if self.rank == 1:
            channel = self.channel()
            flags = fcntl.fcntl(channel, fcntl.F_GETFL)
            fcntl.fcntl(channel, fcntl.F_SETFL, flags | os.O_NONBLOCK)
            for n in range(2000):
                with self.subTest("x" * 500, n=n):
                    self.assertGreaterEqual(n, 0)


class HalfALie(Lies):
    """Rank 1 is never heard, until the deadline."""

    left_s = 0.5

    def test_half_a_frame(self) -> None:
        """Rank 1 announces a longer frame than it sends, so that its real report becomes part of it."""
        if self.rank == 1:
            self.channel().sendall(struct.pack(">I", 1 << 20))


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
