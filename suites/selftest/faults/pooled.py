"""Faulty and well-behaved cases on pooled ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings
from datetime import timedelta
from typing import Any

import torch
import torch._dynamo
import torch.distributed as dist

from harness import MultiProcContinuousTest, MultiProcessTestCase
from harness.cases.continuous import UNSET

# What a test left in this module of its rank: the guard does not look at a module's own globals.
residue: list[str] = []


class Left(UserWarning):
    """A warning category for which a test leaves a filter."""


class Shared(MultiProcContinuousTest):
    """Tests on two pooled ranks that keep their process group."""

    world_size = 2

    @classmethod
    def backend_str(cls) -> str:
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        return "cpu"

    def test_sum(self) -> None:
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor, torch.tensor([3.0]))

    def test_hooks(self) -> None:
        self.assertIs(self.pg, dist.group.WORLD)
        self.assertEqual((dist.get_rank(), dist.get_world_size()), (self.rank, self.world_size))
        self.assertTrue(os.path.exists(str(self.rdvz_file)))

    def test_surroundings(self) -> None:
        print(torch.get_num_threads(), int(dist.get_debug_level()))

    def test_compiler_is_new(self) -> None:
        """The compiler's counters are empty, although other tests of the rank have compiled."""
        counters = torch._dynamo.utils.counters
        self.assertFalse(counters)
        counters["frames"]["ok"] += 1

    def test_warnings_are_new(self) -> None:
        self.assertNotIn(Left, {category for _, _, category, *_ in warnings.filters})
        warnings.simplefilter("error", Left)

    def test_gives_up_a_further_group(self) -> None:
        """Rank 0 alone fails to make a second group, so that its next one gets another name than rank 1's."""
        if self.rank == 0:
            with self.assertRaises(RuntimeError):
                dist.new_group([0, 1], timeout=timedelta(milliseconds=20))

    def test_further_group(self) -> None:
        group = dist.new_group([0, 1])
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor, group=group)
        self.assertEqual(tensor, torch.tensor([3.0]))
        dist.destroy_process_group(group)

    def test_fails(self) -> None:
        self.assertNotEqual(self.rank, 1)

    def test_skips(self) -> None:
        raise unittest.SkipTest("not today")

    def test_skips_alone(self) -> None:
        if self.rank == 1:
            raise unittest.SkipTest("not today")

    def test_crashes(self) -> None:
        if self.rank == 0:
            os._exit(3)
        dist.barrier()

    def test_hangs(self) -> None:
        while self.rank == 1:
            time.sleep(60)

    def test_hangs_after_a_sub_test(self) -> None:
        for n in range(20):
            with self.subTest(n=n):
                self.assertEqual(self.rank, 0)
        self.test_hangs()

    def test_destroys_group(self) -> None:
        dist.destroy_process_group()

    def test_forks_and_fails(self) -> None:
        """A forked child returns from the test without a failure, and each rank fails."""
        pid = os.fork()
        if pid != 0:
            os.waitpid(pid, 0)
            self.fail("in the rank")

    def test_leaves_residue(self) -> None:
        residue.append("left")

    def test_minds_residue(self) -> None:
        self.assertEqual(residue, [])


class SharedToo(Shared):
    """Another class that asks for the same ranks."""


class Wider(Shared):
    """A class with a larger world size."""

    world_size = 3

    def test_sum(self) -> None:
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor, torch.tensor([6.0]))


class OwnOptions(Shared):
    """A class whose group has options of its own, so that it shares its ranks with no other class."""

    @classmethod
    def opts(cls, high_priority_stream: bool = False) -> Any:
        return None


class Properties(Shared):
    """A class whose hooks are an attribute and properties instead of class methods."""

    backend_str = "gloo"  # type: ignore[assignment]  # upstream's users write it so

    @property
    def world_size(self) -> int:  # type: ignore[override]  # a property is the point
        return 2

    @property
    def device_type(self) -> str:  # type: ignore[override]  # a property is the point
        return "cpu"


class UnsizedProperties(Shared):
    """A class of one rank for each device, with the device type as a property."""

    world_size = UNSET

    @property
    def device_type(self) -> str:  # type: ignore[override]  # a property is the point
        return "cpu"

    def test_size(self) -> None:
        self.assertEqual(dist.get_world_size(), torch.cpu.device_count())


class OwnArguments(Shared):
    """A class that passes an argument to its tests."""

    @classmethod
    def _run_test_given_id(cls, test_id: str, **kwargs: Any) -> None:
        super()._run_test_given_id(test_id, answer=42)

    def test_argument(self, answer: int = 0) -> None:
        self.assertEqual(answer, 42)


class FreshGroup(MultiProcessTestCase):
    """Tests that each make a group of their own, for ranks whose processes are reused."""

    world_size = 2

    def test_sum(self) -> None:
        self.assertFalse(dist.is_initialized())
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor, torch.tensor([3.0]))

    def test_leaves_residue(self) -> None:
        residue.append("left")

    def test_gives_up_a_group(self) -> None:
        """Rank 0 alone fails to make a group, so that its next group gets another name than rank 1's."""
        if self.rank == 0:
            with self.assertRaises(RuntimeError):
                dist.init_process_group(
                    "gloo", store=dist.HashStore(), rank=0, world_size=2, timeout=timedelta(milliseconds=20)
                )

    def test_minds_residue_after_a_sum(self) -> None:
        self.test_sum()
        self.assertEqual(residue, [])

    def test_surroundings(self) -> None:
        print(torch.get_num_threads(), int(dist.get_debug_level()))


class Announced(FreshGroup):
    """Two tests that announce the exit code of their ranks, and one that does not."""

    def setUp(self) -> None:
        super().setUp()
        body = getattr(self, self._testMethodName).__wrapped__
        if self._testMethodName != "test_sum":
            self.special_return_code_checks = {body: 3}

    def test_exits(self) -> None:
        sys.exit(3)

    def test_exits_with_another(self) -> None:
        sys.exit(4)


class Leaves(Shared):
    """Tests that pass and leave rank 1 changed, except that the last one leaves a group on both ranks."""

    def test_environment(self) -> None:
        if self.rank == 1:
            os.environ["LEFT_BEHIND"] = "1"

    def test_cwd(self) -> None:
        if self.rank == 1:
            os.chdir("/")

    def test_sys_path(self) -> None:
        if self.rank == 1:
            sys.path.append("/left/behind")

    def test_default_dtype(self) -> None:
        if self.rank == 1:
            torch.set_default_dtype(torch.float64)

    def test_default_device(self) -> None:
        if self.rank == 1:
            torch.set_default_device("meta")

    def test_deterministic(self) -> None:
        if self.rank == 1:
            torch.use_deterministic_algorithms(True)

    def test_debug_level(self) -> None:
        if self.rank == 1:
            dist.set_debug_level(dist.DebugLevel.DETAIL)

    def test_grad_mode(self) -> None:
        if self.rank == 1:
            torch.set_grad_enabled(False)

    def test_signal_handler(self) -> None:
        if self.rank == 1:
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def test_thread(self) -> None:
        if self.rank == 1:
            threading.Thread(target=threading.Event().wait, name="left-behind", daemon=True).start()

    def test_descriptor(self) -> None:
        if self.rank == 1:
            os.open("/dev/zero", os.O_RDONLY)

    def test_child_process(self) -> None:
        if self.rank == 1:
            subprocess.Popen(["sleep", "60"])

    def test_group(self) -> None:
        dist.new_group([0, 1])
