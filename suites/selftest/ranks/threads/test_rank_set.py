"""Tests the parts of threaded ranks: the run token, each rank's state, pending collectives, rank threads."""

from __future__ import annotations

import os
import queue
import random
import sys
import threading
import time
import unittest
import warnings
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.testing._internal.distributed.multi_threaded_pg import ProcessLocalGroup

from harness.communication.matching import CollectiveMatcher, MismatchError
from harness.outcomes import RankOutcome, Status
from harness.ranks.result import RankResult
from harness.ranks.threads import torch_groups
from harness.ranks.threads.rank import RankEnded, ThreadChannel, ThreadEnded, current
from harness.ranks.threads.rank_set import RankThreads
from harness.ranks.threads.rank_state import RankStates, items
from harness.ranks.threads.run_token import RunToken

# Seconds for another thread to reach a point; only a broken test waits this long.
ARRIVAL_S = 60.0


class Noted:
    """A state that notes which rank was switched in."""

    def __init__(self) -> None:
        self.switches: list[int | None] = []

    def switch(self, rank: int | None) -> None:
        self.switches.append(rank)


class TurnsTest(unittest.TestCase):
    """The run token, which decides the rank that may run."""

    def setUp(self) -> None:
        self.state = Noted()
        self.turns = RunToken(self.state)
        self.came: queue.SimpleQueue[int] = queue.SimpleQueue()

    def waiter(self, rank: int) -> threading.Thread:
        """Starts a thread that takes the run token and says so; returns once the thread waits for it."""

        def take() -> None:
            self.turns.take(rank)
            self.came.put(rank)

        thread = threading.Thread(target=take, daemon=True)
        before = len(self.turns._waiting)
        thread.start()
        while len(self.turns._waiting) == before:
            thread.join(0.001)
        return thread

    def test_one_at_a_time(self) -> None:
        """Ranks get the run token one at a time in order of arrival, and its holder may take it again."""
        self.turns.take(0)
        self.turns.take(0)
        one, two = self.waiter(1), self.waiter(2)
        self.assertTrue(self.came.empty())
        for rank, thread in ((1, one), (2, two)):
            self.turns.give(rank - 1)
            self.assertEqual(self.came.get(timeout=ARRIVAL_S), rank)
            self.assertEqual(self.turns.holder, rank)
            thread.join(ARRIVAL_S)
        self.turns.give(2)
        self.assertIsNone(self.turns.holder)
        self.assertEqual(self.state.switches, [0, 1, 2])

    def test_give_what_one_has_not(self) -> None:
        """A rank that gives a run token which it does not hold changes nothing."""
        self.turns.take(0)
        self.turns.give(1)
        self.assertEqual(self.turns.holder, 0)

    def test_lend(self) -> None:
        """A lent token goes to a waiting rank, and giving it back later changes nothing."""
        self.turns.take(0)
        self.assertFalse(self.turns.lend(), "nobody wants it")
        one = self.waiter(1)
        self.assertTrue(self.turns.lend())
        one.join(ARRIVAL_S)
        self.turns.give(0)
        self.assertEqual(self.turns.holder, 1)

    def test_open(self) -> None:
        """An open run token lets every rank run and switches no state any more."""
        self.turns.take(0)
        waiting = [self.waiter(1), self.waiter(2)]
        self.turns.open()
        for thread in waiting:
            thread.join(ARRIVAL_S)
        self.turns.take(3)
        self.assertEqual(self.state.switches, [0])


class StateTest(unittest.TestCase):
    """State that a process has once and each rank has for itself."""

    def test_every_item_is_its_ranks_own(self) -> None:
        """What rank 0 changed is gone for rank 1, back for rank 0, and gone for the parent."""
        directory = os.getcwd()
        filters, stdout = warnings.filters, sys.stdout
        states = RankStates(2)
        self.addCleanup(states.restore)
        generator, drawn = random.getstate(), torch.random.get_rng_state()
        states.switch(0)
        self._change()
        states.switch(1)
        self._assert_unchanged(directory, stdout, generator, drawn)
        self.assertEqual(warnings.filters, filters)
        states.switch(0)
        self.assertEqual(os.environ["HARNESS_SELFTEST_STATE"], "changed")
        self.assertEqual((os.getcwd(), torch.get_default_dtype()), ("/", torch.float64))
        self.assertIs(sys.stdout, sys.stderr)
        self.assertEqual(warnings.filters[0][0], "error")
        states.restore()
        self._assert_unchanged(directory, stdout, generator, drawn)
        self.assertIs(warnings.filters, filters)

    def _change(self) -> None:
        os.environ["HARNESS_SELFTEST_STATE"] = "changed"
        os.chdir("/")
        torch.set_default_dtype(torch.float64)
        torch.set_float32_matmul_precision("high")
        torch.set_warn_always(True)
        sys.stdout = sys.stderr
        warnings.simplefilter("error")
        random.random()
        torch.rand(1)

    def _assert_unchanged(self, directory: str, stdout: Any, generator: Any, drawn: torch.Tensor) -> None:
        self.assertNotIn("HARNESS_SELFTEST_STATE", os.environ)
        self.assertEqual((os.getcwd(), torch.get_default_dtype()), (directory, torch.float32))
        self.assertEqual(torch.get_float32_matmul_precision(), "highest")
        self.assertFalse(torch.is_warn_always_enabled())
        self.assertIs(sys.stdout, stdout)
        self.assertEqual(random.getstate(), generator)
        self.assertTrue(torch.equal(torch.random.get_rng_state(), drawn))

    def test_writing_what_was_read_changes_nothing(self) -> None:
        """Writing back the value that was read changes nothing, for every item."""
        for item in items():
            with self.subTest(item=item.name):
                value = item.read()
                item.write(value, item.read())
                after = item.read()
                same = torch.equal(value, after) if isinstance(value, torch.Tensor) else value == after
                self.assertTrue(same)


class MeetingsTest(unittest.TestCase):
    """Pending collectives, which match the ranks' calls."""

    def test_complete(self) -> None:
        """When all have come, once; the same number may be met at again in another group."""
        meetings = CollectiveMatcher()
        first = meetings.come(0, "0", 1, "barrier", 2)
        self.assertFalse(first.complete)
        self.assertIs(meetings.come(1, "0", 1, "barrier", 2), first)
        self.assertTrue(first.complete)
        self.assertFalse(meetings.come(0, "1", 1, "broadcast", 2).complete)

    def test_mismatch(self) -> None:
        """Says who called what."""
        meetings = CollectiveMatcher()
        meetings.come(0, "0", 3, "barrier", 3)
        meetings.come(2, "0", 3, "barrier", 3)
        with self.assertRaisesRegex(MismatchError, r"#3 of group 0: gather on rank 1, barrier on ranks 0, 2"):
            meetings.come(1, "0", 3, "gather", 3)

    def test_end(self) -> None:
        """Whoever waits goes."""
        meetings = CollectiveMatcher()
        meeting = meetings.come(0, "0", 1, "new_group", 2)
        thread = threading.Thread(target=meetings.wait, args=(meeting,), daemon=True)
        thread.start()
        meetings.end()
        thread.join(ARRIVAL_S)
        self.assertFalse(thread.is_alive())


class RankThreadsTest(unittest.TestCase):
    """``RankThreads``, the ranks of one test as threads."""

    def run_to_end(self, ranks: RankThreads) -> list[RankOutcome]:
        """Starts the ranks, releases them once all have reported, closes, and returns the
        outcomes by rank.
        """
        ranks.start()
        self.addCleanup(ranks.close)
        outcomes: dict[int, RankOutcome] = {}
        gone: set[int] = set()
        while len(gone) < ranks.world_size:
            event = ranks.next_event(ARRIVAL_S)
            if isinstance(event, RankOutcome):
                outcomes[event.rank] = event
                if len(outcomes) == ranks.world_size:
                    ranks.release()
            else:
                assert isinstance(event, ThreadEnded), "no rank has anything to say"
                gone.add(event.rank)
        self.assertEqual(ranks.close(), ())
        return [outcomes[rank] for rank in range(ranks.world_size)]

    def test_outcomes(self) -> None:
        """The outcome of a rank is what its body recorded or raised, or a crash if it did neither."""

        def body(rank: int, channel: ThreadChannel) -> None:
            if rank == 0:
                channel.record(RankResult(Status.PASSED))
            if rank == 1:
                raise ValueError("no")

        found = self.run_to_end(RankThreads(3, body, timeout_s=ARRIVAL_S))
        self.assertEqual([o.status for o in found], [Status.PASSED, Status.ERROR, Status.CRASHED])
        self.assertIn("without running the test", found[2].note)

    def test_groups_are_the_ranks(self) -> None:
        """Each rank sees its own group, the parent none; records tell of each collective."""
        store = torch_groups.new_store()

        def body(rank: int, channel: ThreadChannel) -> None:
            torch_groups.init_group(rank, 2, store)
            dist.barrier()
            dist.all_reduce(torch.ones(1))
            assert dist.get_rank() == rank
            channel.record(RankResult(Status.PASSED))

        ranks = RankThreads(2, body, timeout_s=ARRIVAL_S)
        found = self.run_to_end(ranks)
        for outcome in found:
            self.assertEqual(outcome.status, Status.PASSED, outcome.error)
            self.assertEqual(
                [str(c) for c in outcome.collectives], ["barrier #1 of group 0", "all_reduce #2 of group 0"]
            )
            self.assertTrue(all(c.ended_s is not None for c in outcome.collectives))
        self.assertFalse(dist.is_initialized())

    def test_whom_a_rank_waits_for(self) -> None:
        """A rank in a sleep does not count as waiting for others, and a rank in wait_tensor does."""
        noted: list[bool] = []

        def note(*_: object) -> None:
            rank = current()
            assert rank is not None
            noted.append(rank.waits)

        def body(rank: int, channel: ThreadChannel) -> None:
            time.sleep(0)
            functional.wait_tensor(torch.ones(1))

        with mock.patch.object(time, "sleep", note), mock.patch.object(functional, "wait_tensor", note):
            self.run_to_end(RankThreads(1, body, timeout_s=ARRIVAL_S))
        self.assertEqual(noted, [False, True])

    def test_all_is_as_it_was(self) -> None:
        """Everything that was put in place is taken out."""
        replaced = (*torch_groups._waiting_calls(), *torch_groups._sleeping_calls())
        before = {(owner, name): vars(owner)[name] for owner, name in replaced}
        world, helper = dist.distributed_c10d._world, dist.distributed_c10d._new_process_group_helper
        creator, start = dist.Backend._plugins["THREADED"], vars(ProcessLocalGroup)["_start_coll"]
        self.run_to_end(RankThreads(2, lambda rank, channel: None, timeout_s=ARRIVAL_S))
        self.assertIs(dist.distributed_c10d._world, world)
        self.assertIs(dist.distributed_c10d._new_process_group_helper, helper)
        for (owner, name), value in before.items():
            with self.subTest(f"{owner.__name__}.{name}"):
                self.assertIs(vars(owner)[name], value)
                bound = hasattr(type(value), "__get__") or not isinstance(owner, type)
                self.assertTrue(bound, "what is a method no longer gets its self")
        self.assertEqual(dist.Backend._plugins["THREADED"], creator)
        self.assertIs(vars(ProcessLocalGroup)["_start_coll"], start)

    def test_ranks_cannot_start_ranks(self) -> None:
        """A threaded test within a threaded test is refused."""

        def body(rank: int, channel: ThreadChannel) -> None:
            RankThreads(1, body, timeout_s=1.0).start()

        (outcome,) = self.run_to_end(RankThreads(1, body, timeout_s=ARRIVAL_S))
        assert outcome.error is not None
        self.assertIn("ranks cannot start ranks", outcome.error.message)

    def test_threaded_backend_elsewhere(self) -> None:
        """The threaded backend outside of a rank raises an error that says what is wrong."""
        with self.assertRaisesRegex(RuntimeError, "threads of a threaded test"):
            torch_groups.make_group(None, None)

    def test_over(self) -> None:
        """A rank whose test is over is ended when it next asks for its groups."""
        entered, go = threading.Event(), threading.Event()
        raised: list[BaseException] = []

        def body(rank: int, channel: ThreadChannel) -> None:
            entered.set()
            go.wait(ARRIVAL_S)
            try:
                dist.is_initialized()
            except SystemExit as error:
                raised.append(error)
                raise

        ranks = RankThreads(1, body, timeout_s=ARRIVAL_S)
        ranks.start()
        entered.wait(ARRIVAL_S)
        self.assertIsNone(current())
        self.assertIn("in wait", ranks.threads[0].stack())
        self.assertEqual(ranks.close(), (0,))
        go.set()
        ranks.threads[0].join(ARRIVAL_S)
        self.assertIsInstance(raised[0], RankEnded)


if __name__ == "__main__":
    unittest.main()
