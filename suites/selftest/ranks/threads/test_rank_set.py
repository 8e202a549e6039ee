"""Tests the live ranks of a threaded test: how they start, report, wait and end."""

from __future__ import annotations

import threading
import unittest

import torch
import torch.distributed as dist

from harness.outcomes import Status
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.result import RankResult
from harness.ranks.threads import torch_groups
from harness.ranks.threads.rank import RankEnded, current
from harness.ranks.threads.rank_set import RankThreads
from suites.selftest.ranks.threads.running import ARRIVAL_S, run_to_end


class RankThreadsTest(unittest.TestCase):
    """``RankThreads``, the ranks of one test as threads."""

    def test_outcomes(self) -> None:
        """The outcome of a rank is what its body recorded or raised, or a crash if it did neither."""

        def body(rank: int, channel: DirectChannel) -> None:
            if rank == 0:
                channel.record(RankResult(Status.PASSED))
            if rank == 1:
                raise ValueError("no")

        found = run_to_end(RankThreads(3, body, timeout_s=ARRIVAL_S))
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
        found = run_to_end(ranks)
        for outcome in found:
            self.assertEqual(outcome.status, Status.PASSED, outcome.error)
            self.assertEqual(
                [str(c) for c in outcome.collectives], ["barrier #1 of group 0", "all_reduce #2 of group 0"]
            )
            self.assertTrue(all(c.ended_s is not None for c in outcome.collectives))
        self.assertFalse(dist.is_initialized())

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
