"""Tests the live ranks of a threaded test: how they start, report, wait and end."""

from __future__ import annotations

import threading
import time
import unittest
from unittest import mock

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.testing._internal.distributed.multi_threaded_pg import ProcessLocalGroup

from harness.outcomes import RankOutcome, Status
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.result import RankResult
from harness.ranks.threads import torch_groups
from harness.ranks.threads.rank import RankEnded, ThreadEnded, current
from harness.ranks.threads.rank_set import RankThreads

# Seconds for another thread to reach a point; only a broken test waits this long.
ARRIVAL_S = 60.0


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

        def body(rank: int, channel: DirectChannel) -> None:
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

        def body(rank: int, channel: DirectChannel) -> None:
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

        def body(rank: int, channel: DirectChannel) -> None:
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

        def body(rank: int, channel: DirectChannel) -> None:
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

        def body(rank: int, channel: DirectChannel) -> None:
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
