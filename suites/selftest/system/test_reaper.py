"""Tests how a server tells its ranks, their orphans and its own helpers apart, in processes of their own."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

from harness.system.reaper import reap

ROOT = str(Path(__file__).resolve().parents[3])
# Seconds for a server to do its work; only a broken test waits this long.
LONG_S = 300.0

# A server: `start` gives it a child, by default one that waits until it is killed.
SERVER = """
    import os, signal
    from harness.system import posix, reaper

    # Children have a standard error of their own: the test reads that of the server to its end.
    ERRORS = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]

    def start(*command):
        return os.posix_spawnp(command[0], command, os.environ, file_actions=ERRORS)

    def waiting():
        return start("sleep", "3600")

    def gone(pid):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    posix.adopt_orphans()
    server = reaper.Reaper()
"""


class ReapTest(unittest.TestCase):
    """``reap`` of a child that has ended."""

    def test_exit_code_and_memory(self) -> None:
        """The exit code is as in ``subprocess``; the peak memory is in bytes."""
        for command, code in (("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -signal.SIGKILL)):
            with self.subTest(command):
                pid = os.posix_spawnp("sh", ["sh", "-c", command], os.environ)
                ended, peak = reap(pid)
                self.assertEqual(ended, code)
                self.assertGreater(peak, 100 << 10)
                # A child has its parent's memory until it runs another program.
                own_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
                self.assertLess(peak, own_peak + (100 << 20))


class ReaperTest(unittest.TestCase):
    """``Reaper`` in a server."""

    def serves(self, code: str) -> None:
        """Checks that a server which runs this code finds all of its assertions true."""
        program = textwrap.dedent(SERVER) + textwrap.dedent(code)
        with subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as run:
            try:
                _, errors = run.communicate(timeout=LONG_S)
            finally:
                with contextlib.suppress(ProcessLookupError):  # nothing is left, as it should be
                    os.killpg(run.pid, signal.SIGKILL)
        self.assertEqual(run.returncode, 0, errors)

    def test_chain(self) -> None:
        """Orphans that fork the next and exit, one after another, are ended at last, and told."""
        self.serves("""
            import time
            reaper.ORPHAN_GRACE_S = 0.01
            far = time.monotonic() + 100
            if os.fork() == 0:
                os.closerange(0, 3)
                while time.monotonic() < far:
                    if os.fork():
                        os._exit(0)
                os._exit(0)
            assert server.sweep([])
            assert not posix.children() and time.monotonic() < far
        """)

    def test_sweep(self) -> None:
        """Orphans that do not end by themselves are ended and told; ranks and helpers live on."""
        self.serves("""
            before = posix.children()
            helper = waiting()
            server.register_helpers(before)
            rank, orphan = waiting(), waiting()
            leaked = server.sweep([rank])
            assert leaked == [f"process {orphan}: sleep 3600"], leaked
            assert gone(orphan) and not gone(helper) and not gone(rank)
            assert server.sweep([rank]) == []
            leaked = server.sweep([])
            assert leaked == [f"process {rank}: sleep 3600"], leaked
            assert not gone(helper)
        """)

    def test_orphans_that_end(self) -> None:
        """An orphan that has ended, or ends at once, is reaped and is no leak."""
        self.serves("""
            orphan = start("true")
            os.waitid(os.P_PID, orphan, os.WEXITED | os.WNOWAIT)
            assert server.sweep([]) == []
            assert posix.children() == []
        """)

    def test_orphans_that_end_just_then(self) -> None:
        """An orphan that ends between the looks whether it runs and whether it works is no leak."""
        self.serves("""
            orphan = start("true")
            os.waitid(os.P_PID, orphan, os.WEXITED | os.WNOWAIT)
            posix.still_running = lambda pids, seconds: list(pids)  # a moment ago they did
            assert server.sweep([]) == []
        """)

    def test_orphans_that_work(self) -> None:
        """An orphan that still works when the grace is over gets more of them, but not for ever."""
        self.serves("""
            reaper.ORPHAN_GRACE_S, reaper.MOST_GRACES = 0.001, 10**6
            start("sh", "-c", "n=0; while [ $n -lt 100000 ]; do n=$((n+1)); done")
            assert server.sweep([]) == []
            reaper.MOST_GRACES = 3
            orphan = start("sh", "-c", "while :; do :; done")
            leaked = server.sweep([])
            assert leaked == [f"process {orphan}: sh -c while :; do :; done"], leaked
            assert gone(orphan)
        """)

    def test_orphans_of_orphans(self) -> None:
        """What the death of an orphan orphans is ended, too."""
        self.serves("""
            read, write = os.pipe()
            os.set_inheritable(write, True)
            orphan = start("sh", "-c", f"sleep 3600 & echo $! >&{write}; wait")
            inner = int(os.read(read, 100))
            leaked = server.sweep([])
            assert len(leaked) == 2, leaked
            assert leaked[1] == f"process {inner}: sleep 3600", leaked
            assert gone(orphan) and gone(inner)
        """)

    def test_helpers(self) -> None:
        """Children that were there before an import are no helpers; the others end by SIGTERM."""
        self.serves("""
            reaper.ORPHAN_GRACE_S = 60.0  # no helper is killed that is slow to end
            rank = waiting()
            before = posix.children()
            read, write = os.pipe()
            os.set_inheritable(write, True)
            script = f"trap 'echo told >&{write}; exit' TERM; echo up >&{write}; while :; do sleep 0.01; done"
            helper = start("sh", "-c", script)
            os.close(write)
            assert os.read(read, 100) == b"up\\n"
            server.register_helpers(before)
            assert server.helpers == {helper}, server.helpers
            os.kill(rank, signal.SIGKILL)
            os.waitpid(rank, 0)
            server.end_helpers()
            assert os.read(read, 100) == b"told\\n"
            assert gone(helper) and server.helpers == set() and posix.children() == []
        """)

    def test_stubborn_helper(self) -> None:
        """A helper that ignores SIGTERM is killed, and so is what it has started."""
        self.serves("""
            read, write = os.pipe()
            os.set_inheritable(write, True)
            stubborn = start("sh", "-c", f"trap '' TERM; sleep 3600 & echo $! >&{write}; wait; wait")
            inner = int(os.read(read, 100))
            server.register_helpers([])
            server.end_helpers()
            assert gone(stubborn) and gone(inner) and posix.children() == []
        """)

    def test_helper_that_has_ended(self) -> None:
        """A helper that ended long ago is not signalled, because its number may be somebody else's."""
        self.serves("""
            server.helpers.add(os.getpid())
            server.end_helpers()
            assert server.helpers == set()
        """)


if __name__ == "__main__":
    unittest.main()
