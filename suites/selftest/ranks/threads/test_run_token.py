"""Tests the run token, which lets one rank that is a thread run at a time."""

from __future__ import annotations

import queue
import threading
import unittest

from harness.ranks.thread_stack import stack_of
from harness.ranks.threads.run_token import RunToken

# Seconds for another thread to reach a point; only a broken test waits this long.
ARRIVAL_S = 300.0


class Noted:
    """A state that notes which rank was switched in."""

    def __init__(self) -> None:
        self.switches: list[int | None] = []

    def switch(self, rank: int | None) -> None:
        self.switches.append(rank)


class RunTokenTest(unittest.TestCase):
    """The run token, which decides the rank that may run."""

    def setUp(self) -> None:
        self.state = Noted()
        self.token = RunToken(self.state)
        self.came: queue.SimpleQueue[int] = queue.SimpleQueue()

    def waiter(self, rank: int) -> threading.Thread:
        """Starts a thread that takes the run token and says so; returns once the thread waits for it."""

        def take() -> None:
            self.token.acquire(rank)
            self.came.put(rank)

        thread = threading.Thread(target=take, daemon=True)
        before = self.token.awaiting
        thread.start()
        while self.token.awaiting == before:
            thread.join(0.001)
        return thread

    def test_parent_awaits_a_handover(self) -> None:
        """The parent's wait ends as the holder gives the run token up, or with its time."""
        self.token.await_handover(ARRIVAL_S)
        self.token.acquire(0)
        self.token.await_handover(0.0)
        other = self.waiter(1)
        parent = threading.get_ident()

        def release() -> None:
            while "in await_handover" not in stack_of(parent):
                other.join(0.001)
            self.token.release(0)

        threading.Thread(target=release, daemon=True).start()
        self.token.await_handover(ARRIVAL_S)
        self.assertEqual(self.token.holder, 1)

    def test_one_at_a_time(self) -> None:
        """Ranks get the run token one at a time in order of arrival, and its holder may take it again."""
        self.token.acquire(0)
        self.token.acquire(0)
        one, two = self.waiter(1), self.waiter(2)
        self.assertTrue(self.came.empty())
        for rank, thread in ((1, one), (2, two)):
            self.token.release(rank - 1)
            self.assertEqual(self.came.get(timeout=ARRIVAL_S), rank)
            self.assertEqual(self.token.holder, rank)
            thread.join(ARRIVAL_S)
        self.token.release(2)
        self.assertIsNone(self.token.holder)
        self.assertEqual(self.state.switches, [0, 1, 2])

    def test_release_without_the_token(self) -> None:
        """A rank that releases a run token which it does not hold changes nothing."""
        self.token.acquire(0)
        self.token.release(1)
        self.assertEqual(self.token.holder, 0)

    def test_pass_on(self) -> None:
        """A token that is passed on goes to a waiting rank, and its release later changes nothing."""
        self.token.acquire(0)
        self.assertFalse(self.token.pass_on(), "nobody wants it")
        one = self.waiter(1)
        self.assertTrue(self.token.pass_on())
        one.join(ARRIVAL_S)
        self.token.release(0)
        self.assertEqual(self.token.holder, 1)

    def test_disable(self) -> None:
        """A disabled run token lets every rank run and switches no state any more."""
        self.token.acquire(0)
        waiting = [self.waiter(1), self.waiter(2)]
        self.token.disable()
        for thread in waiting:
            thread.join(ARRIVAL_S)
        self.token.acquire(3)
        self.assertEqual(self.state.switches, [0])


if __name__ == "__main__":
    unittest.main()
