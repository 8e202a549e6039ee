"""Tests the live ranks of a threaded test: how they start, report, wait and end."""

from __future__ import annotations

import builtins
import gc
import math
import queue
import threading
import time
import unittest
from unittest import mock

import torch
import torch.distributed as dist

from harness.communication import call_log
from harness.communication_call import Kind
from harness.outcomes import RankOutcome, Status
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.result import RankResult
from harness.ranks.thread_stack import stack_of
from harness.ranks.threads import torch_groups
from harness.ranks.threads.rank import RankEnded, current
from harness.ranks.threads.rank_set import RankThreads
from harness.system import originals
from suites.selftest.faults.patches import refuse
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

    def test_no_garbage_collection_beside_ranks(self) -> None:
        """None starts by itself while ranks run, since it might destroy a group that gloo's threads serve."""
        before, counted = gc.get_threshold(), []

        def body(rank: int, channel: DirectChannel) -> None:
            runs = sum(each["collections"] for each in gc.get_stats())
            for _ in range(10 * before[0]):
                cycle: list[object] = []
                cycle.append(cycle)
            counted.append(sum(each["collections"] for each in gc.get_stats()) - runs)
            channel.record(RankResult(Status.PASSED))

        run_to_end(RankThreads(2, body, timeout_s=ARRIVAL_S))
        self.assertEqual((counted, gc.get_threshold()), ([0, 0], before))

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
            names = [str(c) for c in outcome.calls if c.kind is Kind.COLLECTIVE]
            self.assertEqual(names, ["barrier #1 of the default group", "all_reduce #2 of the default group"])
            self.assertTrue(all(c.ended_s is not None for c in outcome.calls))
        self.assertFalse(dist.is_initialized())

    def test_a_report_comes_before_the_deadlock(self) -> None:
        """Ranks are not deadlocked before the report of the rank for which they wait has been taken."""
        store = torch_groups.new_store()
        checked: list[object] = []

        class Events(queue.SimpleQueue[object]):
            """Checks for a deadlock before and after rank 1 has reported."""

            def put(self, item: object, block: bool = True, timeout: float | None = None) -> None:
                if isinstance(item, RankOutcome) and item.rank == 1:
                    checked.append(ranks.check_for_stall(math.inf) or ranks.check_for_stall(math.inf))
                super().put(item)
                if isinstance(item, RankOutcome) and item.rank == 1:
                    checked.append(ranks.check_for_stall(math.inf) or ranks.check_for_stall(math.inf))

        def body(rank: int, channel: DirectChannel) -> None:
            torch_groups.init_group(rank, 2, store)
            if rank == 0:
                dist.barrier()
            while not any(call.waits for call in call_log.read(ranks.threads[0].calls)):
                time.sleep(0)
            raise ValueError("why rank 0 waits")

        with mock.patch("queue.SimpleQueue", Events):
            ranks = RankThreads(2, body, timeout_s=ARRIVAL_S, turns=False)
        ranks.start()
        try:
            while len(checked) < 2:  # the report is taken when both are done
                time.sleep(0)
            event = ranks.next_event(ARRIVAL_S)
            assert isinstance(event, RankOutcome), event
            self.assertEqual((event.rank, event.status), (1, Status.ERROR))
            self.assertEqual(checked, [(), ()])
            while ranks.check_for_stall(math.inf) != (0,):
                time.sleep(0)
        finally:
            ranks.interrupt_all()

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

    def test_start_while_builtins_are_replaced(self) -> None:
        """The start returns once a rank that already has a builtin replaced has come to its turn's end."""
        self.addCleanup(originals.apply, originals.restore())
        self.addCleanup(originals.restore)
        parent, over, original = threading.get_ident(), threading.Event(), builtins.input
        came = queue.SimpleQueue[None]()

        def body(rank: int, channel: DirectChannel) -> None:
            if rank == 0:
                builtins.input = refuse
                came.put(None)
                while "in await_handover" not in stack_of(parent) and not over.is_set():
                    pass
                builtins.input = original

        ranks = RankThreads(2, body, timeout_s=ARRIVAL_S)
        start = ranks.threads[1].start
        with mock.patch.object(ranks.threads[1], "start", lambda: (came.get(timeout=ARRIVAL_S), start())):
            ranks.start()
        try:
            self.assertEqual(originals.patched(), ())
        finally:
            over.set()
            ranks.interrupt_all()

    def test_event_while_builtins_are_replaced(self) -> None:
        """The parent gets an event once the rank that has a builtin replaced has come to its turn's end."""
        self.addCleanup(originals.apply, originals.restore())
        self.addCleanup(originals.restore)
        parent, over, original = threading.get_ident(), threading.Event(), builtins.input
        came = queue.SimpleQueue[None]()

        def body(rank: int, channel: DirectChannel) -> None:
            if rank == 1:
                builtins.input = refuse
                came.put(None)
                while "in await_handover" not in stack_of(parent) and not over.is_set():
                    pass
                builtins.input = original

        ranks = RankThreads(2, body, timeout_s=ARRIVAL_S)
        ranks.start()
        try:
            came.get(timeout=ARRIVAL_S)
            ranks.next_event(ARRIVAL_S)
            self.assertEqual(originals.patched(), ())
        finally:
            over.set()
            ranks.interrupt_all()

    def test_originals_after_the_end(self) -> None:
        """Ranks are ended whatever they have replaced, and it is the original again."""
        self.addCleanup(originals.apply, originals.restore())
        self.addCleanup(originals.restore)
        came = queue.SimpleQueue[None]()

        def body(rank: int, channel: DirectChannel) -> None:
            builtins.isinstance = refuse
            try:
                came.put(None)
                while True:
                    pass
            finally:
                originals.restore()

        ranks = RankThreads(1, body, timeout_s=ARRIVAL_S)
        ranks.start()
        came.get(timeout=ARRIVAL_S)
        ranks.interrupt_all()
        self.assertEqual(originals.patched(), ())

    def test_asleep_while_open_is_replaced(self) -> None:
        """A rank that sleeps with the run token loses it, also where ``open`` is replaced."""
        came, go = queue.SimpleQueue[int](), threading.Event()

        def body(rank: int, channel: DirectChannel) -> None:
            with mock.patch("builtins.open", mock.mock_open(read_data="a test's")):
                came.put(rank)
                go.wait(ARRIVAL_S)

        ranks = RankThreads(2, body, timeout_s=ARRIVAL_S)
        ranks.start()
        try:
            first = came.get(timeout=ARRIVAL_S)
            while came.empty():
                self.assertEqual(ranks.check_for_stall(math.inf), ())
            self.assertEqual(came.get(), 1 - first)
        finally:
            go.set()
            ranks.interrupt_all()


if __name__ == "__main__":
    unittest.main()
