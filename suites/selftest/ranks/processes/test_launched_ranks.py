"""Tests the ranks of one launch on the side of the server, with processes that wait for a signal."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import unittest

from harness.protocol import Exited, Launched, Message, Signal, decode
from harness.ranks.processes.launched_ranks import LaunchedRanks
from harness.system import posix
from harness.wire import recv_frame
from suites.selftest.faults.clean import CleanTestCase

WORLD_SIZE = 2
# Seconds for a signal to end a process; only a broken test waits this long.
LONG_S = 60.0


def kill(pid: int) -> None:
    """Kills a process unless it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class LaunchedRanksTest(CleanTestCase):
    """``LaunchedRanks`` with two ranks; the test holds the parent's end of the socket."""

    def setUp(self) -> None:
        super().setUp()
        self.parent, events = socket.socketpair()
        self.addCleanup(self.parent.close)
        self.addCleanup(events.close)
        self.ranks = LaunchedRanks(events)
        self.addCleanup(self.ranks.kill_and_reap)
        for rank in range(WORLD_SIZE):
            self.ranks.add(rank, self.waiting_process())

    def waiting_process(self, *, own_group: bool = True) -> int:
        """Forks a process, by default in a process group of its own, which waits until a signal ends it."""
        pid = os.fork()
        if pid == 0:
            posix.die_with_parent(signal.SIGKILL)
            while True:
                signal.pause()
        if own_group:
            os.setpgid(pid, pid)
        self.addCleanup(kill, pid)
        return pid

    def pidfd(self, rank: int) -> int:
        """Returns the pidfd of a rank."""
        return next(fd for fd, of in self.ranks.pidfds.items() if of == rank)

    def heard(self) -> Message:
        """Returns what the parent reads next."""
        frame = recv_frame(self.parent)
        assert frame is not None
        return decode(frame)

    def test_descriptors(self) -> None:
        """No rank may inherit the launch's socket or a pidfd."""
        self.assertEqual(self.ranks.fds(), [self.ranks.events.fileno(), self.pidfd(0), self.pidfd(1)])

    def test_signal_and_reap(self) -> None:
        """A signal reaches the rank that it is for, and the reaped rank is gone with its pidfd."""
        self.ranks.signal(Signal(1, signal.SIGTERM))
        pidfd = self.pidfd(1)
        exited = self.ranks.reap(pidfd)
        self.assertEqual((exited.rank, exited.code), (1, -signal.SIGTERM))
        self.assertGreater(exited.peak_memory, 0)
        self.assertEqual((list(self.ranks.pids), list(self.ranks.pidfds.values())), ([0], [0]))
        with self.assertRaises(OSError):
            os.fstat(pidfd)

    def test_signal_to_a_group(self) -> None:
        """With ``group``, the processes that a rank has started are signalled, too."""
        child = self.waiting_process(own_group=False)
        os.setpgid(child, self.ranks.pids[0])
        self.ranks.signal(Signal(0, signal.SIGUSR1, group=True))
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(kill, child)
        self.assertEqual(posix.still_running([child], LONG_S), [])
        self.assertEqual(self.ranks.reap(self.pidfd(0)).code, -signal.SIGUSR1)

    def test_signal_to_one_that_has_left_its_group(self) -> None:
        """With ``group``, a rank is signalled in whatever group it is, and so is what it left in its own."""
        self.ranks.add(WORLD_SIZE, self.waiting_process(own_group=False))
        self.ranks.signal(Signal(WORLD_SIZE, signal.SIGKILL, group=True))
        self.assertEqual(self.ranks.reap(self.pidfd(WORLD_SIZE)).code, -signal.SIGKILL)

    def test_signal_to_one_that_is_gone(self) -> None:
        """A signal to a rank that was reaped does nothing."""
        self.ranks.signal(Signal(0, signal.SIGKILL))
        self.ranks.reap(self.pidfd(0))
        for group in (False, True):
            self.ranks.signal(Signal(0, signal.SIGKILL, group=group))

    def test_kill_and_reap(self) -> None:
        """All ranks end, whatever is asked of them before, and nothing of them is left."""
        pids = list(self.ranks.pids.values())
        self.ranks.kill()
        self.ranks.kill_and_reap()
        self.assertEqual((self.ranks.pids, self.ranks.pidfds), ({}, {}))
        for pid in pids:
            with self.assertRaises(ChildProcessError):
                os.waitpid(pid, 0)

    def test_kill_before_it_has_a_group(self) -> None:
        """A rank that is not yet the leader of a group of its own is killed all the same."""
        self.ranks.add(WORLD_SIZE, self.waiting_process(own_group=False))
        self.ranks.kill()
        self.assertEqual(posix.still_running(self.ranks.pids.values(), LONG_S), [])
        self.assertEqual(self.ranks.reap(self.pidfd(WORLD_SIZE)).code, -signal.SIGKILL)

    def test_messages(self) -> None:
        """What is sent arrives in order, and the socket stays one that does not block."""
        self.ranks.events.setblocking(False)
        sent: list[Launched | Exited] = [Launched([1, 2]), Exited(0, 3, 4)]
        for message in sent:
            self.ranks.send(message)
        self.assertEqual([self.heard(), self.heard()], sent)
        self.assertEqual(self.ranks.events.gettimeout(), 0.0)

    def test_parent_that_is_gone(self) -> None:
        """Nothing is sent to a parent that has closed its end, noticed or not."""
        self.ranks.abandoned = True
        self.ranks.send(Launched([]))
        self.parent.setblocking(False)
        with self.assertRaises(BlockingIOError):
            self.parent.recv(1)
        self.ranks.abandoned = False
        self.parent.close()
        self.ranks.send(Launched([]))


if __name__ == "__main__":
    unittest.main()
