"""Tests the values by which the controller sees its workers."""

from __future__ import annotations

import dataclasses
import socket
import unittest
from collections import deque

from harness.runner import events
from harness.runner.events import Cause, Stage, Worker
from harness.runner.messages import Fork
from harness.runner.output_capture import OutputSplitter


class WorkerTest(unittest.TestCase):
    """``Worker``, one worker as the controller sees it."""

    def setUp(self) -> None:
        self.channel, peer = socket.socketpair()
        self.addCleanup(self.channel.close)
        peer.close()

    def worker(self, name: str) -> Worker:
        """Returns a worker that nothing has happened to."""
        order = Fork(name, [], "marker")
        splitter = OutputSplitter("marker")
        return Worker(name, "w1", order, {}, self.channel, -1, -1, splitter, deque(), -1)

    def test_new(self) -> None:
        """A new worker runs no test, has no deadline, and if it ends now then by its own crash."""
        worker = self.worker("a")
        self.assertIs(worker.stage, Stage.RUNNING)
        self.assertIs(worker.cause, Cause.CRASH)
        nothing = (worker.pid, worker.current, worker.deadline_s, worker.doomed, worker.code)
        self.assertEqual(nothing, (None,) * 5)
        self.assertEqual((worker.done, worker.ended_any), (False, False))

    def test_nothing_is_shared(self) -> None:
        """Two workers share neither the bytes of a stack dump nor those of an incomplete frame."""
        one, other = self.worker("a"), self.worker("b")
        one.dump += b"Thread 1"
        self.assertEqual(other.stack_text, "")
        self.assertIsNot(one.frames, other.frames)

    def test_stack_text(self) -> None:
        """The stacks are text without surrounding blank lines, also if some bytes are not UTF-8."""
        worker = self.worker("a")
        for chunk in (b"\nThread 1:\n", b"  File \xff", b"\n\n"):
            worker.dump += chunk
        self.assertEqual(worker.stack_text, "Thread 1:\n  File \\xff")


class EventsTest(unittest.TestCase):
    """The events of a worker."""

    def test_values(self) -> None:
        """Every event is frozen, because the controller passes it on to reporters and the journal."""
        kinds = events.Event.__args__
        self.assertGreater(len(kinds), 1)
        for kind in kinds:
            with self.subTest(kind.__name__):
                made = kind(*(None for _ in dataclasses.fields(kind)))
                first = dataclasses.fields(kind)[0].name
                with self.assertRaises(dataclasses.FrozenInstanceError):
                    setattr(made, first, "changed")

    def test_no_test_classes(self) -> None:
        """An event whose name begins with Test is not collected by pytest."""
        named = [kind for name, kind in vars(events).items() if name.startswith("Test")]
        self.assertGreater(len(named), 1)
        for kind in named:
            self.assertIs(kind.__test__, False, kind)


if __name__ == "__main__":
    unittest.main()
