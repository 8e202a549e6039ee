"""Tests the steps by which a worker is ended, by tables; nothing is sent and nobody waits."""

from __future__ import annotations

import os
import signal
import unittest
from unittest import mock

from harness.runner.messages import Item
from harness.runner.scheduling.plan import Attempt
from harness.runner.worker_process.output_capture import marker_line
from harness.runner.workers import worker_ending
from harness.runner.workers.worker_ending import KILLED_S, STACK_BYTES, STACKS_QUIET_S, TERMINATE_S
from harness.runner.workers.worker_state import Cause, Stage
from harness.runner.workers.zygote_process import STACKS_S
from harness.system import posix
from harness.system.signals import WORKER_STACKS
from suites.selftest.runner.workers.test_worker_state import worker

NOW = 100.0


class StepsTest(unittest.TestCase):
    """``begin`` and the steps after it."""

    def test_begin(self) -> None:
        """What a worker is sent first depends on what it runs, why it is ended, and whether it is stopped."""
        plain, ranks = Item(1, "m", Attempt("m.T.test")), Item(1, "m", Attempt("m.T.test"), ranks=2)
        for current, cause, stopped, signum, group, stage, wait_s in (
            (None, Cause.STOPPED, False, signal.SIGTERM, True, Stage.TERMINATING, TERMINATE_S),
            (plain, Cause.STOPPED, False, WORKER_STACKS, False, Stage.DUMPING, STACKS_S),
            (plain, Cause.TIMEOUT, False, WORKER_STACKS, False, Stage.DUMPING, STACKS_S),
            (ranks, Cause.STOPPED, False, signal.SIGINT, False, Stage.DUMPING, STACKS_S),
            (ranks, Cause.TIMEOUT, False, WORKER_STACKS, False, Stage.DUMPING, STACKS_S),
            (ranks, Cause.STOPPED, True, signal.SIGKILL, True, Stage.KILLED, KILLED_S),
        ):
            with self.subTest(current=current, cause=cause, stopped=stopped):
                ended = worker(self)
                ended.current, ended.pid = current, os.getpid()
                with mock.patch.object(posix, "is_stopped", return_value=stopped):
                    order = worker_ending.begin(ended, cause, NOW)
                self.assertEqual((order.worker, order.signum, order.group), (ended.name, signum, group))
                self.assertEqual((ended.stage, ended.stage_until_s), (stage, NOW + wait_s))
                self.assertEqual((ended.cause, ended.doomed, ended.stopped), (cause, current, stopped))

    def test_next_steps(self) -> None:
        """SIGTERM follows the stacks, SIGKILL follows that, and then nothing."""
        ended = worker(self)
        ended.stage = Stage.DUMPING
        sent = [worker_ending.next_step(ended, NOW) for _ in range(3)]
        self.assertEqual([order and order.signum for order in sent], [signal.SIGTERM, signal.SIGKILL, None])
        self.assertEqual((ended.stage, ended.stage_until_s), (Stage.KILLED, NOW + KILLED_S))

    def test_stacks(self) -> None:
        """The next step is due soon after the last bytes, never later than it was; too many are not kept."""
        ended = worker(self)
        worker_ending.add_stacks(ended, b"a crash", NOW)
        self.assertEqual((bytes(ended.dump), ended.stage_until_s), (b"a crash", 0.0))
        ended.stage, ended.stage_until_s = Stage.DUMPING, NOW + STACKS_S
        worker_ending.add_stacks(ended, b"", NOW)
        self.assertEqual(ended.stage_until_s, NOW + STACKS_S)
        for later_s in (0.0, STACKS_S):
            worker_ending.add_stacks(ended, b"x" * STACK_BYTES, NOW + later_s)
            self.assertEqual(ended.stage_until_s, NOW + STACKS_QUIET_S)
        self.assertEqual(len(ended.dump), STACK_BYTES)


class GoneTest(unittest.TestCase):
    """``gone``: the event of a worker's end."""

    def test_cause(self) -> None:
        """A worker that has said that it is done has ended for that, unless it was being ended."""
        for done, stage, cause in (
            (True, Stage.RUNNING, Cause.DONE),
            (False, Stage.RUNNING, Cause.CRASH),
            (True, Stage.TERMINATING, Cause.CRASH),
        ):
            with self.subTest(done=done, stage=stage):
                ended = worker(self)
                ended.done, ended.stage = done, stage
                event = worker_ending.gone(ended)
                self.assertEqual((event.running, ended.cause), (None, cause))

    def test_running(self) -> None:
        """The running test is to blame, with its output; one that began while another was doomed waits."""
        first, second = Item(1, "m", Attempt("m.T.test_1")), Item(2, "m", Attempt("m.T.test_2"))
        for doomed, stage, blamed in (
            (None, Stage.RUNNING, True),
            (second, Stage.KILLED, True),
            (first, Stage.KILLED, False),
        ):
            with self.subTest(doomed=doomed, stage=stage):
                ended = worker(self)
                ended.waiting.clear()
                ended.splitter.feed(b"outside\n" + marker_line(ended.order.marker, 2) + b"inside\n")
                ended.current, ended.doomed, ended.stage = second, doomed, stage
                event = worker_ending.gone(ended)
                self.assertEqual(event.running, second if blamed else None)
                self.assertEqual(list(ended.waiting), [] if blamed else [second])
                self.assertEqual(event.output, "inside\n" if blamed else "outside\n")


if __name__ == "__main__":
    unittest.main()
