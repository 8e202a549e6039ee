"""Tests a worker's state in the controller, and the descriptors that both have."""

from __future__ import annotations

import os
import unittest

from harness.runner.messages import Fork, Item
from harness.runner.scheduling.plan import Attempt
from harness.runner.workers.worker_state import PIPE_BYTES, Cause, Stage, Worker, opened

NOTHING = Fork("", [], "")


def items(number: int) -> list[tuple[Item, float | None]]:
    """Returns this many items: ``m.T.test_1`` in two seconds, ``m.T.test_2`` in four, and so on."""
    return [(Item(n, "m", Attempt(f"m.T.test_{n}")), 2.0 * n) for n in range(1, number + 1)]


def worker(test: unittest.TestCase, number: int = 1, options: Fork = NOTHING, shift_s: float = 0.0) -> Worker:
    """Returns a worker that nothing has happened to, with so many items, which is closed after the test."""
    with opened("1#7", "1", items(number), options, shift_s=shift_s) as (made, _):
        pass
    test.addCleanup(lambda: made.close() if made.stage is not Stage.GONE else None)
    return made


class WorkerTest(unittest.TestCase):
    """``Worker``, one worker as the controller sees it."""

    def test_new(self) -> None:
        """A new worker runs no test, has no deadline, and if it ends now then by its own crash."""
        new = worker(self)
        self.assertIs(new.stage, Stage.RUNNING)
        self.assertIs(new.cause, Cause.CRASH)
        nothing = (new.pid, new.current, new.deadline_s, new.doomed, new.code)
        self.assertEqual(nothing, (None,) * 5)
        self.assertEqual((new.done, new.ended_any), (False, False))

    def test_nothing_is_shared(self) -> None:
        """Two workers share neither the bytes of a stack dump nor those of an incomplete frame."""
        one, other = worker(self), worker(self)
        one.dump += b"Thread 1"
        self.assertEqual(other.stack_text, "")
        self.assertIsNot(one.frames, other.frames)
        self.assertNotEqual(one.order.marker, other.order.marker)

    def test_stack_text(self) -> None:
        """The stacks are text without surrounding blank lines, also if some bytes are not UTF-8."""
        new = worker(self)
        for chunk in (b"\nThread 1:\n", b"  File \xff", b"\n\n"):
            new.dump += chunk
        self.assertEqual(new.stack_text, "Thread 1:\n  File \\xff")

    def test_due(self) -> None:
        """Its test's deadline counts while it runs, then that of its stage; both can be put off."""
        new = worker(self)
        self.assertEqual(new.due_s, float("inf"))
        new.postpone(1.0)
        self.assertIsNone(new.deadline_s)
        new.deadline_s, new.stage_until_s = 5.0, 3.0
        self.assertEqual(new.due_s, 5.0)
        new.postpone(1.0)
        self.assertEqual(new.due_s, 6.0)
        new.stage = Stage.DUMPING
        self.assertEqual(new.due_s, 4.0)

    def test_take_back(self) -> None:
        """Items are taken from the end, in order, and none that the worker has claimed."""
        new = worker(self, 4)
        os.read(new.claims, 1)  # as the worker does
        self.assertEqual([item.seq for item in new.take_back(2)], [3, 4])
        self.assertEqual([item.seq for item in new.take_back(2)], [2])
        self.assertEqual(new.take_back(2), [])
        self.assertEqual([item.seq for item in new.waiting], [1])

    def test_take_back_where_a_test_writes(self) -> None:
        """Nothing is taken, and nobody waits, where a test has opened the claim pipe: it has no end."""
        new = worker(self)
        path = f"/proc/self/fd/{new.claims}"
        with open(path, "wb"):
            os.read(new.claims, 1)
            self.assertEqual(new.take_back(1), [])


class OpenedTest(unittest.TestCase):
    """``opened``: a worker's descriptors."""

    def test_ends(self) -> None:
        """What goes into the far ends comes out of the near ones, which end when the far are closed."""
        with opened("1#7", "1", items(2), NOTHING, "there", 0.5) as (new, far):
            self.addCleanup(new.close)
            self.assertEqual((new.host, new.shift_s, new.limits), ("there", 0.5, {1: 2.0, 2: 4.0}))
            self.assertEqual((new.order.worker, [i.seq for i in new.order.items]), ("1#7", [1, 2]))
            for fd, text in zip(far, (b"message", b"output", b"stacks"), strict=False):
                os.write(fd, text)
            self.assertEqual(new.channel.recv(99), b"message")
            self.assertEqual([os.read(fd, 99) for fd in (new.output, new.stacks)], [b"output", b"stacks"])
            with self.assertRaises(BlockingIOError):
                os.read(new.output, 1)
        self.assertEqual([os.read(fd, 1) for fd in (new.output, new.stacks)], [b"", b""])
        self.assertEqual(new.channel.recv(1), b"")

    def test_many_items(self) -> None:
        """There is a byte for every item, also where a pipe holds fewer by itself."""
        new = worker(self, PIPE_BYTES + 1)
        self.assertEqual(len(os.read(new.claims, 2 * PIPE_BYTES)), PIPE_BYTES + 1)

    def test_closed(self) -> None:
        """A closed worker is gone and has no descriptor any more."""
        new = worker(self)
        fds = (new.channel.fileno(), new.output, new.stacks, new.claims)
        new.close()
        self.assertIs(new.stage, Stage.GONE)
        for fd in fds:
            with self.assertRaises(OSError):
                os.fstat(fd)
        self.assertEqual((new.output, new.stacks, new.claims), (-1, -1, -1))


if __name__ == "__main__":
    unittest.main()
