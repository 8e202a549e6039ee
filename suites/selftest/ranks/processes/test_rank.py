"""Tests the life of a rank process with one test: what it settles, reports, and when and how it ends."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import select
import signal
import sys
import unittest
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from harness.outcomes import EXIT_ERROR, EXIT_SKIPPED, Status
from harness.protocol import Assignment, Release
from harness.ranks.processes.fork_server import fork_rank
from harness.ranks.processes.spawn import exec_rank
from harness.system.signals import RANK_STACKS
from suites.selftest.ranks.processes.one_rank import ARRIVAL_S, LEFT, RankCase, launch


class OneTestTest(RankCase):
    """A rank that runs one test."""

    def test_outcomes(self) -> None:
        """A rank reports how its test ended, and its exit code says the same."""
        rows = (
            ("passes", Status.PASSED, 0),
            ("skips", Status.SKIPPED, EXIT_SKIPPED),
            ("fails", Status.FAILED, EXIT_ERROR),
            ("interrupts", Status.ERROR, EXIT_ERROR),
            ("forgets", Status.CRASHED, EXIT_ERROR),
            ("exits", Status.CRASHED, 7),
            ("is_missing", Status.ERROR, EXIT_ERROR),
        )
        for method, status, code in rows:
            with self.subTest(method):
                self.start(launch(method))
                outcome = self.outcome()
                self.send(Release())
                self.assertEqual((outcome.rank, outcome.pid), (0, self.pid))
                self.assertEqual((outcome.status, self.exit_code()), (status, code))

    def test_no_class(self) -> None:
        """A rank whose module lacks the class reports that as its error."""
        self.start(launch("passes", qualname="Missing"))
        error = self.outcome().error
        self.send(Release())
        assert error is not None
        self.assertIn("has no class Missing", error.message)
        self.assertEqual(self.exit_code(), EXIT_ERROR)

    def test_arguments(self) -> None:
        """The test gets the file and the further arguments of the request, in either kind of process."""
        for start_rank in (fork_rank, exec_rank):
            with self.subTest(start_rank.__name__):
                self.start(launch("prints", file_name="f", kwargs={"n": 5}), start_rank)
                self.assertEqual(self.outcome().status, Status.PASSED)
                self.send(Release())
                self.assertEqual(self.read(self.output), "f {'n': 5}")
                self.assertEqual(self.exit_code(), 0)

    def test_new_interpreter(self) -> None:
        """A rank that is a new interpreter has the environment of its request, not that of its server."""
        self.start(launch("prints_variable", environ={**os.environ, LEFT: "now"}), exec_rank)
        self.send(Release())
        self.assertEqual(self.read(self.output), "now\n")
        self.assertEqual(self.exit_code(), 0)

    def test_streams(self) -> None:
        """All standard streams lead to the rank's output, in order, although the parent captures its own."""
        with contextlib.ExitStack() as patches:
            for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
                patches.enter_context(mock.patch.object(sys, name, io.StringIO()))
            self.start(launch("uses_streams"))
        self.send(Release())
        self.assertEqual(self.read(self.output), "a\nb\nc\nd\n\\udcff")
        self.assertEqual(self.exit_code(), 0)

    def test_signals(self) -> None:
        """SIGTERM ends a rank although the parent blocks and ignores it."""
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            self.start(launch("waits"))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.read(self.output, b"\n")
        os.kill(self.pid, signal.SIGTERM)
        self.assertEqual(self.exit_code(), -signal.SIGTERM)

    def test_stack_dump(self) -> None:
        """The signal for it, and a crash, write the rank's stack to its own pipe and not to its output."""
        self.start(launch("waits"))
        self.read(self.output, b"\n")
        os.kill(self.pid, RANK_STACKS)
        self.assertIn(" in waits\n", self.read(self.stack, b" in live\n"))
        os.kill(self.pid, signal.SIGABRT)
        self.assertIn("Fatal Python error: Aborted", self.read(self.stack))
        self.assertEqual(self.read(self.output), "")
        self.assertEqual(self.exit_code(), -signal.SIGABRT)

    def test_exit_functions_run_after_release(self) -> None:
        """A rank that has reported waits for its release, then runs its test's atexit functions."""
        file = Path(self.temporary, "file")
        self.start(launch("looks_at_exit", file_name=str(file)))
        self.outcome()
        file.touch()
        self.addCleanup(file.unlink)
        self.send(Release())
        self.assertEqual(self.read(self.output), "True")
        self.assertEqual(self.exit_code(), 0)

    def test_never_returns(self) -> None:
        """A fork that fails before its test ends at once and does not return to the code that forked it."""
        self.start(launch("passes"), channel=-1)
        self.assertEqual(self.exit_code(), 1)
        self.assertIn("Traceback (most recent call last)", self.read(self.output))


class EndOfParentTest(RankCase):
    """Ranks whose parent, or the server that started them, ends."""

    def test_parent(self) -> None:
        """A rank whose parent has ended runs to its end and is not stopped by the missing reader."""
        self.start(launch("fails"))
        self.channel.close()
        self.assertEqual(self.exit_code(), EXIT_ERROR)

    def test_parent_of_pooled_rank(self) -> None:
        """A pooled rank ends when its parent has ended."""
        self.start(launch("", pooled=True))
        self.channel.close()
        self.assertEqual(self.exit_code(), 0)

    def test_server(self) -> None:
        """A rank is killed when the server that started it ends."""
        self.start(launch("waits"), start_from_a_server)
        rank = int(self.read(self.output, b"\n"))
        pidfd = os.pidfd_open(rank)
        self.addCleanup(os.close, pidfd)
        try:
            os.kill(self.pid, signal.SIGKILL)
            self.assertEqual(self.exit_code(), -signal.SIGKILL)
            self.assertTrue(select.select([pidfd], [], [], ARRIVAL_S)[0], "the rank is alive")
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]), -signal.SIGKILL)

    def test_server_that_ended_before(self) -> None:
        """A rank whose server has ended before the rank could watch it ends without running its test."""
        self.start(launch("prints"), server_pid=os.getppid())
        self.assertEqual(self.exit_code(), EXIT_ERROR)
        self.assertEqual(self.read(self.output), "")


def start_from_a_server(assignment: Assignment, close: Sequence[int]) -> int:
    """Forks a process that forks the rank and then waits for ever; returns that process's id."""
    pid = os.fork()
    if pid == 0:
        try:
            fork_rank(dataclasses.replace(assignment, server_pid=os.getpid()), close)
            while True:
                signal.pause()
        finally:
            os._exit(1)
    return pid


if __name__ == "__main__":
    unittest.main()
