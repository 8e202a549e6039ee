"""Healthy and faulty cases whose ranks are threads, which cases/test_threaded.py runs."""

from __future__ import annotations

import contextlib
import threading
import time
import unittest

import torch
import torch.distributed as dist

from harness.cases.threaded import MultiThreadedTestCase, spawn_threads_and_init_comms

# Seconds; the harness ends the wait, or the self-test opens the gate.
LONG_S = 3600.0
# A thread that nothing can end waits here; the self-test opens it when it has seen what it wanted.
GATE = threading.Event()
# Set by rank 0 of a test as it begins to sleep.
ASLEEP = threading.Event()


def _loop_until_the_gate_opens() -> None:
    """A loop in a function of its own: who calls it in a ``with`` gets every exception raised in the loop.

    From Python 3.12 on the jump back of a loop with a condition is in no range of its function's exception
    table, so that an interruption which is raised there passes by the handlers around the loop.
    """
    while not GATE.is_set():
        pass


class Threaded(MultiThreadedTestCase):
    """Three ranks, started in setUp as upstream's tests do it."""

    world_size = 3

    def setUp(self) -> None:
        super().setUp()
        self._spawn_threads()


class Contract(Threaded):
    """Checks what the author of a threaded test can see."""

    def setUp(self) -> None:
        self.made_by = threading.current_thread().name
        super().setUp()

    def perThreadSetUp(self) -> None:
        self.events = [f"set up in a group of {dist.get_world_size()}"]

    def perThreadTearDown(self) -> None:
        self.assertEqual(self.events[-1], "tested")
        self.events.append("torn down")

    def test_hooks(self) -> None:
        """Each rank runs on a fresh instance, between the per-thread hooks, and its cleanups run last."""
        self.assertFalse(hasattr(self, "made_by"))
        self.assertEqual(self._current_test_name, "test_hooks")
        self.assertEqual((self.rank, self.world_size), (dist.get_rank(), dist.get_world_size()))
        self.assertEqual(dist.get_backend(), "threaded")
        self.assertIsNotNone(type(self).global_store)
        self.addCleanup(lambda: self.assertEqual(self.events[-1], "torn down"))
        self.assertEqual(self.events, ["set up in a group of 3"])
        self.events.append("tested")

    def test_on_rank(self) -> None:
        """The assertions with a rank argument look on that rank only."""
        self.assertEqualOnRank(self.rank, 0)
        self.assertEqualOnRank(self.rank, 2, rank=2)
        self.assertNotEqualOnRank(self.rank, 1)
        with self.assertRaises(AssertionError) if self.rank == 1 else contextlib.nullcontext():
            self.assertEqualOnRank(1, 2, rank=1)
        self.events.append("tested")

    def test_skips(self) -> None:
        """Skips on all ranks."""
        self.events.append("tested")
        self.skipTest("not today")


class Late(MultiThreadedTestCase):
    """A case whose setUp starts no ranks."""

    world_size = 2

    def test_runs(self) -> None:
        """The ranks start when the method runs."""
        total = torch.ones(1)
        dist.all_reduce(total)
        self.assertEqual(total.item(), 2)


class Faulty(Threaded):
    """Rank 1 goes wrong in the way that the method's name says."""

    def test_fails(self) -> None:
        if self.rank == 1:
            self.fail("rank 1 will not play")
        dist.barrier()

    def test_raises_something_of_its_own(self) -> None:
        if self.rank == 1:
            raise Unheard("straight through")
        dist.barrier()

    def test_exits(self) -> None:
        if self.rank == 1:
            raise SystemExit(7)
        dist.barrier()

    def test_skips(self) -> None:
        if self.rank == 1:
            self.skipTest("not on rank 1")
        dist.barrier()

    def test_leaves_early(self) -> None:
        if self.rank != 1:
            dist.barrier()

    def test_calls_another(self) -> None:
        value = torch.zeros(1)
        if self.rank == 1:
            dist.broadcast(value, 0)
        else:
            dist.all_reduce(value)

    def test_makes_no_group(self) -> None:
        if self.rank != 1:
            dist.new_group([0, 1, 2])

    def test_cleanup_fails(self) -> None:
        if self.rank == 1:
            self.addCleanup(self.fail, "nothing was tidy")

    def test_subtests(self) -> None:
        for number in range(3):
            with self.subTest(number=number):
                self.assertFalse(self.rank == 1 and number == 2, "two on one")

    def test_subtest_skips(self) -> None:
        with self.subTest(number=1):
            if self.rank == 1:
                self.skipTest("not on rank 1")

    async def test_coroutine(self) -> None:
        self.fail("never")

    def test_subtest_and_another_collective(self) -> None:
        with self.subTest(number=1):
            self.assertNotEqual(self.rank, 1, "why rank 1 is elsewhere")
            dist.all_reduce(torch.zeros(1))
        if self.rank == 1:
            dist.barrier()

    def test_subtest_and_a_loop(self) -> None:
        with self.subTest(number=1):
            self.assertNotEqual(self.rank, 1, "why rank 1 is elsewhere")
            dist.barrier()
        for number in range(2, 6):  # each sub-test takes an interruption
            with self.subTest(number=number):
                while True:
                    pass

    @unittest.expectedFailure
    def test_expected_to_fail(self) -> None:
        self.fail("as announced")

    @unittest.expectedFailure
    def test_passes_unexpectedly(self) -> None:
        dist.barrier()

    def test_loops(self) -> None:
        while self.rank == 1:
            pass
        dist.barrier()

    def test_loops_while_a_peer_awaits_its_turn(self) -> None:
        """Rank 1 runs without end from when rank 0 sleeps, so that rank 0 is not let on."""
        if self.rank == 0:
            ASLEEP.set()
            time.sleep(0.5)
        while not ASLEEP.is_set():
            time.sleep(0.01)
        while self.rank == 1:
            pass
        dist.barrier()

    def test_takes_interruptions(self) -> None:
        """Rank 1 takes every interruption, until the gate is open."""
        while self.rank == 1 and not GATE.is_set():
            with contextlib.suppress(SystemExit):
                _loop_until_the_gate_opens()

    def test_sticks(self) -> None:
        if self.rank == 1:
            GATE.wait(LONG_S)
            try:
                dist.barrier()  # by then no test owns the group
            finally:
                dist.destroy_process_group()
        dist.barrier()

    def test_set_up_fails(self) -> None:
        dist.barrier()

    def perThreadSetUp(self) -> None:
        if self.rank == 1 and self._current_test_name == "test_set_up_fails":
            raise RuntimeError("not ready")


class Unheard(BaseException):
    """An exception that is not an ``Exception``."""


class Decorated(unittest.TestCase):
    """Uses upstream's decorator on a plain unittest case."""

    def setUp(self) -> None:
        self.seen: list[int] = []
        self.cleaned: list[int] = []

    @spawn_threads_and_init_comms(world_size=4)
    def test_four(self) -> None:
        """The ranks share the instance's attributes, but each has cleanups of its own."""
        total = torch.ones(1)
        dist.all_reduce(total)
        self.assertEqual(total.item(), 4)
        self.seen.append(dist.get_rank())
        self.addCleanup(self.cleaned.append, dist.get_rank())

    @spawn_threads_and_init_comms
    def test_bare(self) -> None:
        """The decorator without arguments starts four ranks, of which rank 1 fails in a sub-test."""
        with self.subTest(rank=dist.get_rank()):
            self.assertNotEqual(dist.get_rank(), 1)

    @spawn_threads_and_init_comms(world_size=2, timeout=1.5)
    def test_times_out(self) -> None:
        """Rank 1 loops until the decorator's timeout."""
        while dist.get_rank() == 1:
            pass
        dist.barrier()
