"""Tests the queue: what starts before what, and that nothing is lost in it."""

from __future__ import annotations

import unittest

from harness.runner.scheduling.plan import Attempt
from harness.runner.scheduling.queue import Queue, Turn
from harness.runner.scheduling.schedule import Capacity
from harness.runner.scheduling.timings import Timings
from harness.runner.scheduling.unit import of_id


def turn(name: str, attempt: int = 1) -> Turn:
    """Returns an attempt at a test, with its unit."""
    return of_id(f"m.T.{name}", "m"), Attempt(f"m.T.{name}", 1, attempt)


class QueueTest(unittest.TestCase):
    """A queue on a machine with a number of slots; batches are named by the tests in them."""

    def setUp(self) -> None:
        """Starts with no known batches."""
        self.keys: dict[str, int] = {}

    def make(self, *, slots: int = 1, isolate: bool = True, reruns_first: bool = True) -> Queue:
        """Makes a queue of batches."""
        return Queue(Capacity(slots), Timings({}, {}), isolate=isolate, reruns_first=reruns_first)

    def start(self, queue: Queue) -> list[str]:
        """Returns what starts now, as ``test/attempt`` of each batch's tests."""
        started = []
        for key, turns in queue.start(0.0):
            names = " ".join(f"{unit.method}/{attempt.attempt}" for unit, attempt in turns)
            self.keys[names] = key
            started.append(names)
        return started

    def test_a_rerun_waits_its_turn(self) -> None:
        """A rerun waits in line if nothing depends on it."""
        queue = self.make(reruns_first=False)
        queue.add([turn("a"), turn("b")])
        self.assertEqual(self.start(queue), ["a/1"])
        queue.rerun(turn("a", 2))
        self.assertFalse(queue.holding)
        queue.done(self.keys["a/1"])
        self.assertEqual(self.start(queue), ["b/1"])
        queue.done(self.keys["b/1"])
        self.assertEqual(self.start(queue), ["a/2"])

    def test_a_rerun_waits_for_its_time(self) -> None:
        """Until its time others start; with reruns first nothing does."""
        queue = self.make(reruns_first=False)
        self.assertEqual(queue.next_due_s, float("inf"))
        queue.add([turn("a"), turn("b")])
        self.start(queue)
        queue.rerun(turn("a", 2), due_s=5.0)
        queue.done(self.keys["a/1"])
        self.assertEqual((self.start(queue), queue.next_due_s), (["b/1"], 5.0))
        queue.done(self.keys["b/1"])
        self.assertEqual([turns[0][1].attempt for _, turns in queue.start(4.9)], [])
        self.assertEqual([turns[0][1].attempt for _, turns in queue.start(5.0)], [2])
        self.assertEqual(queue.next_due_s, float("inf"))

    def test_a_rerun_that_waits_is_forgotten(self) -> None:
        """The end of a run forgets it, and while it waits with reruns first, nothing starts."""
        queue = self.make(slots=2)
        queue.add([turn(name) for name in "abc"])
        self.start(queue)
        queue.rerun(turn("a", 2), due_s=5.0)
        queue.done(self.keys["a/1"])
        self.assertEqual((self.start(queue), queue.holding), ([], True))
        queue.stop()
        self.assertEqual((queue.next_due_s, queue.start(9.0)), (float("inf"), []))

    def test_a_rerun_goes_first_and_alone(self) -> None:
        """A rerun goes first and alone, whatever slots are free."""
        queue = self.make(slots=2)
        queue.add([turn(name) for name in "abcd"])
        self.assertEqual(self.start(queue), ["a/1", "b/1"])
        queue.rerun(turn("a", 2))
        queue.done(self.keys["a/1"])
        self.assertEqual(self.start(queue), ["a/2"])
        queue.done(self.keys["b/1"])
        self.assertEqual((self.start(queue), queue.holding), ([], True))
        queue.rerun(turn("a", 3))
        queue.done(self.keys["a/2"])
        self.assertEqual(self.start(queue), ["a/3"])
        queue.done(self.keys["a/3"])
        self.assertEqual((self.start(queue), queue.holding), (["c/1", "d/1"], False))

    def test_two_reruns(self) -> None:
        """Two reruns do not wait for each other."""
        queue = self.make(slots=2)
        queue.add([turn(name) for name in "abc"])
        self.start(queue)
        for name in ("a", "b"):
            queue.rerun(turn(name, 2))
            queue.done(self.keys[f"{name}/1"])
        self.assertEqual(self.start(queue), ["a/2", "b/2"])
        queue.done(self.keys["a/2"])
        self.assertEqual(self.start(queue), [])
        queue.done(self.keys["b/2"])
        self.assertEqual(self.start(queue), ["c/1"])

    def test_the_rest_of_a_batch(self) -> None:
        """The rest of a batch comes after the rerun of the test that cut it short, and before all others."""
        queue = self.make(isolate=False)
        queue.add([turn("a"), turn("b"), turn("c")])
        self.assertEqual(self.start(queue), ["a/1 b/1 c/1"])
        queue.rerun(turn("a", 2))
        queue.add([turn("d")])
        queue.put_back(self.keys["a/1 b/1 c/1"], [turn("b"), turn("c")])
        for expected in ("a/2", "b/1 c/1", "d/1"):
            self.assertEqual(self.start(queue), [expected])
            queue.done(self.keys[expected])
        self.assertEqual(self.start(queue), [])

    def test_stopped(self) -> None:
        """A stopped queue starts nothing, neither what waits nor what is held."""
        queue = self.make()
        queue.add([turn("a"), turn("b")])
        self.start(queue)
        queue.rerun(turn("a", 2))
        queue.stop()
        queue.done(self.keys["a/1"])
        self.assertEqual(self.start(queue), [])


if __name__ == "__main__":
    unittest.main()
