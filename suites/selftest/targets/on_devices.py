"""Tests that ``test_hostmem`` runs on one to eight devices of ``hostmem``; what they say depends on how many.

Their ranks test the run's target, as those of any suite do.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from harness import MultiProcessTestCase, memory_mb, skip_if_lt_x_gpu
from harness.requirements.probes import probe_system
from harness.targets import current

# How long the tests hold their devices that a schedule is read from, in seconds.
HOLDS_S = 0.3
# How long a test waits for those that are to run beside it, in seconds.
HELD_S = 100
MORE_THAN_HALF_MB = 6 * (probe_system().memory_mb or 0) // 10


class OnDevices(MultiProcessTestCase):
    """A case whose ranks have an accelerator each and have joined a group."""

    rank_modes: tuple[str, ...] = ("pooled", "fresh")
    world_size = 2

    @property
    def device_type(self) -> str:
        """That of the target."""
        return current().device_type

    def setUpRank(self) -> None:
        super().setUpRank()
        current().set_device(self.device.index)
        self.store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group(
            current().backend, store=self.store, rank=self.rank, world_size=self.world_size
        )

    @property
    def device(self) -> torch.device:
        """This rank's own."""
        return current().device(self.rank)


class Bodies:
    """What each world size tries."""

    rank: int
    world_size: int
    device: torch.device
    assertEqual: Any
    assertTrue: Any

    def test_rank_has_its_device(self) -> None:
        """The current device is the rank's; what is made without an index is there, and so are results."""
        self.assertEqual(torch.accelerator.current_device_index(), self.rank)
        self.assertEqual(torch.ones(2, device=self.device.type).device, self.device)
        self.assertEqual(torch.hostmem.memory_allocated((self.rank + 1) % self.world_size), 0)
        held = torch.ones(2, device=self.device) * (self.rank + 1)
        self.assertTrue(torch.hostmem.memory_allocated(self.rank) > 0)
        dist.all_reduce(held)
        self.assertEqual(held.device, self.device)
        self.assertEqual(held.tolist(), [sum(range(self.world_size + 1))] * 2)

    def test_seed(self) -> None:
        """Each device starts from the run's seed, and a rank's draws are its device's alone."""
        drawn = torch.rand(3, device=self.device)
        everywhere = [torch.empty_like(drawn) for _ in range(self.world_size)]
        dist.all_gather(everywhere, drawn)
        for other in everywhere:
            self.assertTrue(torch.equal(other, drawn))
        self.assertTrue(not torch.equal(torch.rand(3, device=self.device), drawn))
        again = torch.Generator(self.device).manual_seed(torch.initial_seed())
        self.assertTrue(torch.equal(torch.rand(3, device=self.device, generator=again), drawn))

    def test_streams(self) -> None:
        """A stream is current within its region only, and is one of the rank's device."""
        before = torch.accelerator.current_stream()
        side = torch.Stream(self.device)
        with side:
            self.assertEqual(torch.accelerator.current_stream(), side)
            held = torch.ones(2, device=self.device)
            dist.all_reduce(held)
            done = side.record_event()
        before.wait_event(done)
        self.assertEqual(torch.accelerator.current_stream(), before)
        self.assertEqual(side.device_index, self.rank)
        self.assertEqual(held.tolist(), [self.world_size] * 2)


class TwoTest(Bodies, OnDevices):
    """On two ranks."""


class FourTest(Bodies, OnDevices):
    """On four ranks."""

    world_size = 4


class SharedTest(OnDevices):
    """Four ranks of which some share a device."""

    world_size = 4

    def test_ranks_share(self) -> None:
        """Ranks have the devices in turn, and their tensors there meet."""
        device = self.rank % torch.hostmem.device_count()
        self.assertEqual(self.device.index, device)
        self.assertEqual(torch.accelerator.current_device_index(), device)
        held = torch.ones(2, device=self.device) * (self.rank + 1)
        dist.all_reduce(held)
        self.assertEqual((held.device, held.tolist()), (self.device, [10] * 2))


class EightTest(Bodies, OnDevices):
    """On eight ranks."""

    world_size = 8


class LateTest(OnDevices):
    """What fails on a device after the call that started it, in ranks that go on to the next test."""

    rank_modes = ("pooled",)

    def test_1_late(self) -> None:
        """Nobody waits for the device on which rank 1's kernel fails."""
        if self.rank == 1:
            torch.hostmem.fail_later("an index is out of bounds")

    def test_2_after(self) -> None:
        """Nothing is wrong with this one."""


class TakenTest(OnDevices):
    """Tests that hold two devices each, with processors for several of them at once."""

    rank_modes = ("fresh",)

    def _hold(self) -> None:
        dist.barrier()
        time.sleep(HOLDS_S)

    def test_a(self) -> None:
        """Holds two devices."""
        self._hold()

    def test_b(self) -> None:
        """Holds two devices."""
        self._hold()

    def test_c(self) -> None:
        """Holds two devices."""
        self._hold()


class OwnDevicesTest(OnDevices):
    """Tests that take two devices each, and wait until ``HELD`` of them have theirs at the same time."""

    rank_modes = ("fresh",)

    def _held(self) -> None:
        """Notes which of the machine's devices this test has, and waits for the others."""
        mine: list[Any] = [None] * self.world_size
        dist.all_gather_object(mine, torch.hostmem.physical_device())
        if self.rank == 0:
            together = dist.FileStore(os.environ["HELD_STORE"])
            number = together.add("tests", 1)
            together.set(f"devices of {number}", ",".join(map(str, mine)))
            others = [f"devices of {other}" for other in range(1, int(os.environ["HELD"]) + 1)]
            together.wait(others, timedelta(seconds=HELD_S))
        dist.barrier()

    def test_a(self) -> None:
        """Has two devices."""
        self._held()

    def test_b(self) -> None:
        """Has two devices."""
        self._held()

    def test_c(self) -> None:
        """Has two devices."""
        self._held()


class MemoryTest(OnDevices):
    """Tests that need more than half of this machine's memory each."""

    rank_modes = ("fresh",)

    @memory_mb(MORE_THAN_HALF_MB)
    def test_a(self) -> None:
        """Takes its time."""
        time.sleep(HOLDS_S)

    @memory_mb(MORE_THAN_HALF_MB)
    def test_b(self) -> None:
        """Takes its time."""
        time.sleep(HOLDS_S)


class CountedTest(MultiProcessTestCase):
    """What says how many devices it needs, and has two ranks on the CPU."""

    world_size = 2

    @skip_if_lt_x_gpu(2)
    def test_two(self) -> None:
        """Needs two devices."""

    @skip_if_lt_x_gpu(8)
    def test_eight(self) -> None:
        """Needs eight devices."""


class UsedBeforeTest(OnDevices):
    """Ranks of a process that has used a device, whose forks could not."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        torch.ones(1, device=current().device_type)

    def test_device(self) -> None:
        """The ranks have not been forked from it."""
        self.assertFalse(torch.hostmem._is_in_bad_fork())
        self.assertEqual(torch.ones(1, device=self.device).item(), 1)
