"""Tests that a stopped zygote, worker or controller stalls no run and makes no false verdict."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import unittest
from typing import TypeVar
from unittest import mock

from harness.outcomes import Status
from harness.report.base import TestStarted
from harness.runner.interrupts import Interrupts
from harness.runner.messages import Fork, Item
from harness.runner.scheduling.plan import Attempt
from harness.runner.workers import workers, zygote_process
from harness.runner.workers.events import Event, Notice, TestEnded, WorkerGone, ZygoteGone
from harness.runner.workers.worker_state import Cause
from harness.runner.workers.workers import Workers
from harness.runner.workers.zygote_process import ZygoteProcess
from harness.system import logged_server
from harness.system.control_group import MemoryKills
from suites.selftest.runner import runs

Kind = TypeVar("Kind", bound=Event)

STOP = "os.kill(os.getpid(), signal.SIGSTOP)"


class StoppedTest(unittest.TestCase):
    """Workers of a real zygote, which run one test each; looks follow each other quickly."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)
        self.events: list[Event] = []
        wake, wakes = os.pipe()
        for fd in (wake, wakes):
            self.addCleanup(os.close, fd)
        self.wake = wake
        path = [str(self.directory), *sys.path]
        self.zygote = ZygoteProcess(runs.environ(self.directory), path, inherit_streams=False)
        self.addCleanup(self.zygote.close)
        entered = contextlib.ExitStack()
        self.addCleanup(entered.close)
        self.workers = entered.enter_context(Workers(entered.enter_context(Interrupts())))
        for module in (workers, zygote_process):
            entered.enter_context(mock.patch.object(module, "LOOK_S", 0.01))
        for module in (workers, logged_server):
            entered.enter_context(mock.patch.object(module, "STOPPED_LOOKS", 2))

    def start(self, body: str, limit_s: float | None = None) -> None:
        """Starts a worker that runs a test with the body of one line."""
        method = f"class T(unittest.TestCase):\n    def test(self): {body}\n"
        runs.write_module(self.directory, "test_m", method)
        (loaded,) = self.zygote.load(["test_m"], [], self.wake)
        self.assertEqual(loaded.error, "")
        self.workers.use(self.zygote)
        item = Item(1, "test_m", Attempt("test_m.T.test"))
        self.workers.start("1", [(item, limit_s)], Fork("", [], ""))

    def next(self, kind: type[Kind]) -> Kind:
        """Waits for the next event of a kind."""
        until = time.monotonic() + runs.PATIENCE_S
        while time.monotonic() < until:
            self.events += self.workers.wait(until)
            for event in self.events:
                if isinstance(event, kind):
                    self.events.remove(event)
                    return event
        raise AssertionError(f"no {kind.__name__} in {self.events}")

    def test_zygote(self) -> None:
        """A stopped zygote is killed, is reported as lost with the reason, and its worker with it."""
        self.start("os.kill(os.getppid(), signal.SIGSTOP); signal.pause()")
        self.assertIn("because it was stopped (as by SIGSTOP)", self.next(ZygoteGone).reason)
        self.assertEqual(self.next(WorkerGone).worker.cause, Cause.ZYGOTE)

    def test_worker(self) -> None:
        """A worker that is stopped in a test is killed when the test's limit is over, at once, and noted."""
        self.start(STOP, limit_s=0.2)
        with mock.patch.object(Workers, "_send", autospec=True, side_effect=Workers._send) as sent:
            worker = self.next(WorkerGone).worker
        self.assertEqual([call.args[2].signum for call in sent.call_args_list], [signal.SIGKILL])
        self.assertEqual((worker.cause, worker.stopped, worker.code), (Cause.TIMEOUT, True, -signal.SIGKILL))

    def test_worker_that_runs_no_test(self) -> None:
        """A worker that is stopped where no limit of a test counts is killed with a notice."""
        self.start(f"from harness.system.closing import on_close; on_close(lambda: {STOP})")
        self.assertEqual(self.next(TestEnded).record.status, Status.PASSED)
        self.assertRegex(self.next(Notice).text, r"worker 1 \(process \d+\) was stopped")
        with mock.patch.object(MemoryKills, "explain", side_effect=lambda code: f"because of {code}"):
            worker = self.next(WorkerGone).worker
        self.assertEqual((worker.stopped, worker.code), (True, -signal.SIGKILL))
        self.assertEqual(worker.killed, "because of -9")

    def test_controller(self) -> None:
        """A controller that was stopped beyond the limit of a test first sees how the test went on."""
        said, heard = (str(self.directory / name) for name in ("said", "heard"))
        for path in (said, heard):
            os.mkfifo(path)
        limit_s = 0.3
        body = f"time.sleep({2 * limit_s}); open({said!r}, 'w').close(); open({heard!r}).close()"
        self.start(body, limit_s)
        self.next(TestStarted)
        open(said).close()  # this process is as good as stopped
        with mock.patch.object(workers, "LATE_S", limit_s / 2):
            self.events += self.workers.wait(time.monotonic())
            open(heard, "w").close()
            self.assertEqual(self.next(TestEnded).record.status, Status.PASSED)


if __name__ == "__main__":
    unittest.main()
