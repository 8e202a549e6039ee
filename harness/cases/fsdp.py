"""The base classes of FSDP tests, one a default rank mode; the process group exists before the test.

    FSDPTestMixin + MultiProcessTestCase      fresh ranks      FSDPTest
                  + MultiProcContinuousTest   pooled ranks     FSDPTestContinuous
                    MultiThreadedTestCase     threads          FSDPTestMultiThread

Ranks are one for each accelerator, on its backend; on a machine without any they are two, on gloo, where
upstream skips every test. Source of the contract: ``torch.testing._internal.common_fsdp``.
"""

from __future__ import annotations

from typing import Any

import torch
import torch._dynamo  # FSDP2's first forward would import it in each rank: related: pytorch/pytorch#162595
import torch.distributed as dist

from harness.cases import comms, defaults, subtests
from harness.cases.continuous import MultiProcContinuousTest
from harness.cases.fake_groups import FakeStore
from harness.cases.fsdp_parity import FSDPTestMixin
from harness.cases.multiprocess import MultiProcessTestCase
from harness.cases.threaded import MultiThreadedTestCase
from harness.compiler_state import reset_compiler
from harness.ranks import rendezvous
from harness.requirements import get_required_world_size

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

DEVICE_TYPE, _ = defaults.accelerator()
DISTRIBUTED_BACKEND = defaults.backend_for(DEVICE_TYPE)


def get_devtype() -> torch.device:
    """The device that FSDP tests run on: the accelerator's type where this machine has one, else the CPU."""
    return torch.device(DEVICE_TYPE)


class FSDPTest(FSDPTestMixin, MultiProcessTestCase):
    """An FSDP test on fresh ranks, whose default process group is made before the test.

    ``fake_pg = True`` makes that a fake group, which computes nothing. ``HARNESS_RANKS`` may select pooled
    ranks.
    """

    rank_modes: tuple[str, ...] = ("fresh", "pooled")

    @property
    def world_size(self) -> int:
        """What the test requires (``requires_world_size``), else one rank for each accelerator, or 2."""
        return get_required_world_size(self, defaults.rank_per_accelerator())

    @property
    def process_group(self) -> Any:
        """The default process group."""
        return dist.group.WORLD

    @property
    def init_method(self) -> str:
        """The URL of the file at which the ranks meet."""
        return f"file://{self.file_name}"

    def setUp(self) -> None:
        """Starts the ranks."""
        super().setUp()
        self._spawn_processes()

    def setUpRank(self) -> None:
        """Makes the default process group in this rank; on an accelerator, on the rank's own device."""
        super().setUpRank()
        size = int(self.world_size)
        if getattr(self, "fake_pg", False):
            dist.init_process_group("fake", rank=self.rank, world_size=size, store=FakeStore())
            return
        comms.check_backend(DISTRIBUTED_BACKEND, size)
        _use_own_device(self.rank)
        if rendezvous.over_hosts():
            store = rendezvous.store(self._file_name, size)
            dist.init_process_group(DISTRIBUTED_BACKEND, store=store, rank=self.rank, world_size=size)
            return
        dist.init_process_group(
            DISTRIBUTED_BACKEND, init_method=self.init_method, rank=self.rank, world_size=size
        )


class FSDPTestContinuous(FSDPTestMixin, MultiProcContinuousTest):
    """An FSDP test on pooled ranks that keep their process group; consecutive classes share them."""

    world_size: int = defaults.rank_per_accelerator()

    @classmethod
    def backend_str(cls) -> str | None:
        """The accelerator's backend, or gloo."""
        return DISTRIBUTED_BACKEND

    @classmethod
    def device_type(cls) -> str:
        """The accelerator's type where this machine has one, else ``"cpu"``."""
        return DEVICE_TYPE

    @classmethod
    def _init_pg(cls, rank: int, world_size: int, rdvz_file: str) -> None:
        comms.check_backend(DISTRIBUTED_BACKEND, world_size)
        _use_own_device(rank)
        super()._init_pg(rank, world_size, rdvz_file)

    @property
    def process_group(self) -> Any:
        """The process group that the class's tests share."""
        return type(self).pg


class FSDPTestMultiThread(MultiThreadedTestCase):
    """An FSDP test on threads, whose process group exists before the test; all share the first device."""

    @property
    def world_size(self) -> int:
        """What the test requires (``requires_world_size``), else one rank for each accelerator, or 2."""
        return get_required_world_size(self, defaults.rank_per_accelerator())

    def setUp(self) -> None:
        """Starts the ranks."""
        super().setUp()
        self._spawn_threads()

    run_subtests = subtests.run_subtests

    def perThreadSetUp(self) -> None:
        """Forgets what the compiler has compiled."""
        reset_compiler()

    def perThreadTearDown(self) -> None:
        """Forgets what the compiler has compiled."""
        reset_compiler()


def _use_own_device(rank: int) -> None:
    if DEVICE_TYPE != "cpu":
        defaults.use_device(rank)
