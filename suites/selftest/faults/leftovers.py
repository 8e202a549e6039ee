"""Ranks that leave something behind: threads, processes, a changed environment, nonsense on a channel."""

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
    """Rank 1 leaves something."""

    def test_thread(self) -> None:
        """One that would never end."""
        if self.rank == 1:
            threading.Thread(target=time.sleep, args=(3600,)).start()

    def test_daemon_thread(self) -> None:
        """One that prints while the rank leaves."""
        if self.rank == 1:
            threading.Thread(target=_chatter, daemon=True).start()

    def test_fork(self) -> None:
        """A child that ends as a script does, one that fails, one that goes on: all come out of the test."""
        for end in ("exit", "fail", "go on"):
            pid = os.fork()
            if pid == 0:
                if end == "exit":
                    sys.exit(0)
                self.assertNotEqual(end, "fail")
                return
            os.waitpid(pid, 0)

    def test_child(self) -> None:
        """A child that holds the rank's output open."""
        if self.rank == 1:
            subprocess.Popen(SLEEPER)

    def test_child_that_ignores_signals(self) -> None:
        """Only SIGKILL ends it."""
        if self.rank == 1:
            _fork(_ignore_and_wait)

    def test_session_leader(self) -> None:
        """A child in a session of its own: no signal to a process group reaches it."""
        if self.rank == 1:
            subprocess.Popen(SLEEPER, start_new_session=True)

    def test_daemon(self) -> None:
        """Forked twice, in a session of its own, without streams; its pid is told."""
        if self.rank == 1:
            read, write = os.pipe()
            _fork(_daemonise, read, write)
            os.close(write)
            with open(read) as pids:
                announce(int(pids.read()))

    def test_child_that_ends_by_itself(self) -> None:
        """Nothing to warn of: it was about to end."""
        if self.rank == 1:
            subprocess.Popen(["true"])

    def test_child_and_crash(self) -> None:
        """The rank dies, its child stays."""
        if self.rank == 1:
            subprocess.Popen(SLEEPER)
            os.kill(os.getpid(), signal.SIGKILL)

    def test_environment(self) -> None:
        """Changes what later tests could meet."""
        os.environ["LEFT_BY_A_RANK"] = "1"
        os.environ.pop("PATH", None)
        os.chdir("/")
        os.umask(0o777)
        sys.path.insert(0, "/nowhere")
        sys.argv[:] = ["changed"]
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def test_environment_is_whole(self) -> None:
        """What the test before this one changed is as it was."""
        self.assertNotIn("LEFT_BY_A_RANK", os.environ)
        self.assertIn("PATH", os.environ)
        self.assertEqual(os.getcwd(), os.environ["EXPECTED_CWD"])
        self.assertNotIn("/nowhere", sys.path)
        self.assertNotEqual(sys.argv, ["changed"])
        self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)
        self.assertNotEqual(os.umask(0o022), 0o777)


class Lies(FaultyCase):
    """Rank 1 writes to the descriptor on which it reports, once rank 0 is there with nothing left to do."""

    def setUpRank(self) -> None:
        if self.rank == 0:
            self.tell("here")
        else:
            self.hear("here")

    def channel(self) -> socket.socket:
        """The rank's channel: the one socket that a rank has."""
        for name in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                    return socket.socket(fileno=os.dup(int(name)))
            except FileNotFoundError:
                continue
        raise AssertionError("no socket")

    def test_garbage(self) -> None:
        """Text, as of a stray print."""
        if self.rank == 1:
            self.channel().sendall(b"hello, who is there?")

    def test_garbage_and_hang(self) -> None:
        """Text, and then nothing more."""
        if self.rank == 1:
            self.channel().sendall(b"hello, who is there?")
            time.sleep(3600)

    def test_framed_garbage(self) -> None:
        """A frame that is no message."""
        if self.rank == 1:
            send_frame(self.channel(), b'{"kind": "Report"')

    def test_wrong_message(self) -> None:
        """A message that no rank sends."""
        if self.rank == 1:
            send_frame(self.channel(), b'{"kind": "Swept", "leaked": []}')

    def test_another_rank(self) -> None:
        """Speaks for rank 0."""
        if self.rank == 1:
            send_frame(self.channel(), encode(Report(RankOutcome(0, Status.PASSED))))

    def test_no_rank_at_all(self) -> None:
        """Speaks for a rank that there is not."""
        if self.rank == 1:
            send_frame(self.channel(), encode(Report(RankOutcome(77, Status.PASSED))))

    def test_not_a_mapping(self) -> None:
        """A report whose parts are of the wrong kind."""
        if self.rank == 1:
            send_frame(self.channel(), b'{"kind": "Report", "outcome": [1, 2]}')

    def test_wrong_fields(self) -> None:
        """A report whose fields are of the wrong kind: it has to be refused before it is used."""
        if self.rank == 1:
            frame = encode(Report(RankOutcome(1, Status.PASSED, duration_s=1.5)))
            lie = frame.replace(b'"duration_s": 1.5', b'"duration_s": "long"')
            assert lie != frame
            send_frame(self.channel(), lie)

    def test_half_a_frame(self) -> None:
        """A promise of more, and then the real report on top of it."""
        if self.rank == 1:
            self.channel().sendall(struct.pack(">I", 1 << 20))

    def test_passes_then_fails(self) -> None:
        """Says by hand that it passed, and fails."""
        if self.rank == 1:
            send_frame(self.channel(), encode(Report(RankOutcome(1, Status.PASSED))))
            self.fail("the truth")

    def test_closes_everything(self) -> None:
        """Closes all descriptors that are not its own business, as daemons do."""
        if self.rank == 1:
            os.closerange(3, 1 << 16)

    def test_blocks_its_channel(self) -> None:
        """Makes its channel non-blocking and reports a megabyte."""
        if self.rank == 1:
            channel = self.channel()
            flags = fcntl.fcntl(channel, fcntl.F_GETFL)
            fcntl.fcntl(channel, fcntl.F_SETFL, flags | os.O_NONBLOCK)
            for n in range(2000):
                with self.subTest("x" * 500, n=n):
                    self.assertGreaterEqual(n, 0)


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
