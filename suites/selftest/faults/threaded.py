"""Healthy and faulty cases whose ranks are threads, which cases/test_threaded.py runs."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import threading
import time
import unittest
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.testing._internal.common_device_type import (
    dtypes,
    instantiate_device_type_tests,
    precisionOverride,
)

from harness import MultiProcessTestCase, TestCase
from harness.cases.threaded import MultiThreadedTestCase, spawn_threads_and_init_comms
from harness.releases import torch_at_least

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
        with self.assertRaises(AssertionError) if self.rank == 1 else _nothing():
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


class State(Threaded):
    """Checks that each rank has its own copy of the state that a process has once."""

    def test_generators(self) -> None:
        """Each rank draws the numbers that it would draw alone, however the ranks are interleaved."""
        torch.manual_seed(self.rank)
        random.seed(self.rank)
        np.random.seed(self.rank)
        drawn: list[Any] = []
        for _ in range(3):
            drawn.append((torch.rand(2).tolist(), random.random(), float(np.random.random())))
            dist.barrier()
        self.assertEqual(drawn, alone(self.rank))

    def test_settings(self) -> None:
        """A rank finds the settings that it made, although the other ranks made others."""
        self.settings()

    def settings(self) -> None:
        """Changes the settings of a rank, and looks at them again after the other ranks have
        changed theirs.
        """
        kinds = (torch.float64, torch.float16, torch.float32)
        os.environ["SELFTEST_RANK"] = str(self.rank)
        torch.set_default_dtype(kinds[self.rank])
        torch.use_deterministic_algorithms(self.rank == 1)
        torch.set_grad_enabled(self.rank == 0)
        os.chdir("/" if self.rank else "/proc")
        warnings.simplefilter("error" if self.rank == 2 else "ignore")
        dist.barrier()
        self.assertEqual(os.environ["SELFTEST_RANK"], str(self.rank))
        self.assertIs(torch.get_default_dtype(), kinds[self.rank])
        self.assertEqual(torch.are_deterministic_algorithms_enabled(), self.rank == 1)
        self.assertEqual(torch.is_grad_enabled(), self.rank == 0)
        self.assertEqual(os.getcwd(), "/" if self.rank else "/proc")
        self.assertEqual(warnings.filters[0][0], "error" if self.rank == 2 else "ignore")

    def test_settings_and_fail(self) -> None:
        """A rank keeps its settings until it fails."""
        self.settings()
        self.fail("after all that")


def alone(rank: int) -> list[tuple[list[float], float, float]]:
    """Returns what a rank draws in ``State.test_generators`` if no other rank draws."""
    torch_alone = torch.Generator().manual_seed(rank)
    python_alone, numpy_alone = random.Random(rank), np.random.RandomState(rank)
    return [
        (torch.rand(2, generator=torch_alone).tolist(), python_alone.random(), float(numpy_alone.random()))
        for _ in range(3)
    ]


def check_tolerance(case: Any, device: str, dtype: torch.dtype) -> None:
    """Passes in a case that tolerates a difference of a hundredth."""
    case.assertEqual(torch.zeros(1, device=device, dtype=dtype), torch.full((1,), 1e-3, dtype=dtype))


class Tolerant(MultiThreadedTestCase):
    """A case instantiated for a device type, for which torch keeps a test's tolerances by thread."""

    world_size = 2

    @precisionOverride({torch.float32: 1e-2})  # type: ignore[untyped-decorator]  # torch is not followed
    @dtypes(torch.float32)  # type: ignore[untyped-decorator]  # torch is not followed
    def test_tolerance(self, device: str, dtype: torch.dtype) -> None:
        check_tolerance(self, device, dtype)


class TolerantDecorated(TestCase):
    """The same tolerances in a case that starts its threads within the test."""

    @precisionOverride({torch.float32: 1e-2})  # type: ignore[untyped-decorator]  # torch is not followed
    @dtypes(torch.float32)  # type: ignore[untyped-decorator]  # torch is not followed
    @spawn_threads_and_init_comms(world_size=2)
    def test_tolerance(self, device: str, dtype: torch.dtype) -> None:
        check_tolerance(self, device, dtype)


# Makes TolerantCPU and TolerantDecoratedCPU.
instantiate_device_type_tests(Tolerant, globals(), only_for=("cpu",))
instantiate_device_type_tests(TolerantDecorated, globals(), only_for=("cpu",))


class Sleeping(Threaded):
    """Ranks that wait, without a collective, until all of them have come."""

    came: ClassVar[list[int]] = []
    gate: ClassVar[tuple[int, int]]

    def setUp(self) -> None:
        self.came.clear()
        type(self).gate = os.pipe()
        self.addCleanup(os.close, self.gate[0])
        super().setUp()

    def test_sleeps(self) -> None:
        """Each rank polls until all have come."""

        def wait() -> None:
            while len(self.came) < 3:
                time.sleep(0.001)

        self.check_state_after(wait)

    def test_waits_for_child(self) -> None:
        """Each rank waits for a child process, which ends when the gate opens."""
        self.check_state_after(lambda: subprocess.Popen(["cat"], stdin=self.gate[0]).wait())

    def test_listens_to_child(self) -> None:
        """Each rank reads the output of a child process, which ends when the gate opens."""
        self.check_state_after(
            lambda: subprocess.run(["cat"], stdin=self.gate[0], capture_output=True, check=True)
        )

    def check_state_after(self, wait: Callable[[], object]) -> None:
        """Sets a rank's state, waits, and checks that the state is still there."""
        kind = (torch.float64, torch.float16, torch.float32)[self.rank]
        torch.set_default_dtype(kind)
        torch.manual_seed(self.rank)
        os.environ["SELFTEST_RANK"] = str(self.rank)
        self.came.append(self.rank)
        if len(self.came) == 3:
            os.close(self.gate[1])
        wait()
        self.assertIs(torch.get_default_dtype(), kind)
        self.assertEqual(torch.initial_seed(), self.rank)
        self.assertEqual(os.environ["SELFTEST_RANK"], str(self.rank))


class Asleep(Threaded):
    """Ranks that wait for each other without giving the run token away."""

    barrier = threading.Barrier(3)

    def test_meet_elsewhere(self) -> None:
        """Ranks meet at a barrier of Python's own: one that sleeps with the run token loses it."""
        self.barrier.wait(60.0)


class FreeAsleep(Asleep):
    """The same test on ranks that do not take the run token."""

    takes_turns = False


class Collectives:
    """Collective bodies that run on threads and on processes; ranks alone determine the values."""

    rank: int

    def test_sums(self) -> None:
        """all_reduce and reduce give the right values for each operation."""
        mine = torch.tensor([self.rank + 1.0, 2.0])
        for operation, expected in (
            (dist.ReduceOp.SUM, [6.0, 6.0]),
            (dist.ReduceOp.MAX, [3.0, 2.0]),
            (dist.ReduceOp.PRODUCT, [6.0, 8.0]),
        ):
            value = mine.clone()
            dist.all_reduce(value, op=operation)
            self.check(value, expected)
        value = mine.clone()
        dist.reduce(value, 2)
        if self.rank == 2:
            self.check(value, [6.0, 6.0])

    def test_gathers(self) -> None:
        """all_gather, gather, all_gather_into_tensor and all_gather_object give the right values."""
        mine = torch.tensor([float(self.rank)])
        parts = [torch.empty(1) for _ in range(3)]
        dist.all_gather(parts, mine)
        self.check(torch.cat(parts), [0.0, 1.0, 2.0])
        whole = torch.empty(3)
        dist.all_gather_into_tensor(whole, mine)
        self.check(whole, [0.0, 1.0, 2.0])
        on_root = [torch.empty(1) for _ in range(3)] if self.rank == 1 else None
        dist.gather(mine, on_root, dst=1)
        if on_root is not None:
            self.check(torch.cat(on_root), [0.0, 1.0, 2.0])
        objects: list[Any] = [None] * 3
        dist.all_gather_object(objects, {"rank": self.rank})
        assert objects == [{"rank": r} for r in range(3)], objects

    def test_moves(self) -> None:
        """broadcast, scatter, reduce_scatter and all_to_all_single work, and all_reduce on a subgroup."""
        value = torch.tensor([float(self.rank)])
        dist.broadcast(value, 1)
        self.check(value, [1.0])
        parts = [torch.tensor([10.0 * r]) for r in range(3)] if self.rank == 0 else None
        dist.scatter(value, parts, src=0)
        self.check(value, [10.0 * self.rank])
        dist.reduce_scatter_tensor(value, torch.arange(3.0) + self.rank)
        self.check(value, [3.0 * self.rank + 3.0])
        out = torch.empty(3)
        dist.all_to_all_single(out, torch.arange(3.0) + 10 * self.rank)
        self.check(out, [self.rank, self.rank + 10.0, self.rank + 20.0])
        pair = dist.new_group([0, 2])
        if self.rank != 1:
            value = torch.tensor([float(self.rank)])
            dist.all_reduce(value, group=pair)
            self.check(value, [2.0])

    def check(self, value: torch.Tensor, expected: list[float]) -> None:
        """Fails unless the values are exactly these."""
        assert value.tolist() == expected, (value, expected)


class Compiled:
    """Bodies that compile collectives, on three ranks."""

    def test_one_graph(self) -> None:
        """Functional collectives, and plain ones that dynamo makes functional, compile to one graph."""

        def functional_sum(x: torch.Tensor) -> torch.Tensor:
            whole = functional.all_reduce(x, "sum", dist.group.WORLD)
            return functional.wait_tensor(whole) + 1

        def plain_sum(x: torch.Tensor) -> torch.Tensor:
            x = x * 1
            dist.all_reduce(x)
            return x + 1

        for function in (functional_sum, plain_sum):
            compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
            assert compiled(torch.ones(2)).tolist() == [4.0, 4.0]

    def test_between_graphs(self) -> None:
        """An asynchronous collective runs as it is, also where it breaks the graph."""
        graphs: list[Any] = []

        def backend(graph: Any, inputs: Any) -> Any:
            graphs.append(graph)
            return graph

        @torch.compile(backend=backend)  # type: ignore[untyped-decorator]  # torch is not followed
        def sums(x: torch.Tensor) -> torch.Tensor:
            x = x * 1
            work = dist.all_reduce(x, async_op=True)
            work.wait()
            return x + 1

        assert sums(torch.ones(2)).tolist() == [4.0, 4.0]
        assert len(graphs) == (2 if torch_at_least("2.12") else 1), graphs


class CollectivesOnThreads(Collectives, Compiled, Threaded):
    """Runs the bodies on torch's threaded process group."""

    def test_refused_call(self) -> None:
        """A call whose arguments are refused is no collective, on one rank or on all."""
        for refusing in ((0,), (1, 2), (0, 1, 2)):
            if self.rank in refusing:
                with self.assertRaises(NotImplementedError):
                    dist.reduce_scatter(torch.ones(1), [torch.ones(1)] * 3, op=dist.ReduceOp.MAX)
            value = torch.tensor([float(self.rank)])
            dist.broadcast(value, 1)
            self.check(value, [1.0])


class OnGloo(Collectives, Compiled, MultiProcessTestCase):
    """Runs the bodies on gloo, with processes or threads as HARNESS_RANKS says."""

    world_size = 3
    rank_modes = ("fresh", "threads")

    def setUpRank(self) -> None:
        store = dist.FileStore(self.file_name, 3)
        dist.init_process_group("gloo", rank=self.rank, world_size=3, store=store)

    def test_fails(self) -> None:
        """Rank 1 fails while its peers wait in gloo's barrier."""
        if self.rank == 1:
            self.fail("rank 1 will not play")
        dist.barrier()

    def test_exits_as_announced(self) -> None:
        """Each rank ends with a return code that the test may announce."""
        raise SystemExit(7)

    def test_own_class(self) -> None:
        """What a rank sets on its class is its own, or the last rank's if ranks are processes."""
        type(self).mark = self.rank  # type: ignore[attr-defined]  # made here
        dist.barrier()
        self.assertEqual(type(self).mark, self.rank)  # type: ignore[attr-defined]  # made above
        self.assertEqual(self.id().rsplit(".", 2)[1:], ["OnGloo", "test_own_class"])


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


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...
