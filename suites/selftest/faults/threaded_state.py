"""Cases on threads that look at state which a process has once; cases/test_threaded_state.py runs them."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
import torch.distributed as dist
from torch.testing._internal.common_device_type import (
    dtypes,
    instantiate_device_type_tests,
    precisionOverride,
)

from harness import TestCase
from harness.cases.threaded import MultiThreadedTestCase, spawn_threads_and_init_comms
from suites.selftest.faults.threaded import Threaded


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
