"""``DistributedTestBase``: a case that starts its ranks in ``setUp`` and makes a process group by device."""

from __future__ import annotations

import os
from typing import Any

from harness.cases.multiprocess import MultiProcessTestCase
from harness.errors import UsageError
from harness.ranks import rendezvous
from harness.settings import EnvVar


class DistributedTestBase(MultiProcessTestCase):
    """Starts the ranks in ``setUp`` and makes the process group that fits a device.

    Source of the contract: ``common_distributed.DistributedTestBase``.
    """

    what_makes_a_group = 'self.create_pg("cpu") in the test, or in setUpRank, makes it'

    def setUp(self) -> None:
        """Starts the ranks, with ``WORLD_SIZE`` in their environment."""
        super().setUp()
        before = os.environ.get(EnvVar.WORLD_SIZE)
        os.environ[EnvVar.WORLD_SIZE] = str(self.world_size)
        self.addCleanup(_restore, EnvVar.WORLD_SIZE, before)
        self._spawn_processes()

    def backend(self, device: str) -> str:
        """The name of the collective backend for a device such as ``"cuda:0"``; gloo where none is better."""
        kind = str(device).partition(":")[0]
        return {"cuda": "nccl", "hpu": "hccl", "xpu": "xccl"}.get(kind, "gloo")

    def create_pg(self, device: str, world_size: int | None = None) -> Any:
        """Makes the default process group at the ranks' meeting place, and returns it.

        On an accelerator this also makes the rank's device the current and the default one. UsageError where
        it is not called in a rank.
        """
        import torch
        import torch.distributed as dist

        if self.rank == self.MAIN_PROCESS_RANK:
            raise UsageError(
                "create_pg was called in the process that starts the ranks, where setUp and setUpClass run: "
                "call it in the test or in setUpRank, which run in each rank"
            )
        size = self.world_size if world_size is None else world_size
        backend = self.backend(device)
        store = rendezvous.store(self._file_name, size)
        dist.init_process_group(backend=backend, world_size=size, rank=self.rank, store=store)
        if backend != "gloo":
            kind = str(device).partition(":")[0]
            own = self.rank_to_device(kind)[self.rank][0]
            torch.set_default_device(f"{kind}:{own}")
            torch.get_device_module(kind).set_device(own)
        return dist.group.WORLD

    def rank_to_device(self, device: str) -> dict[int, list[int]]:
        """Device indices by rank: ranks are assigned to the visible devices of that kind in turn."""
        import torch

        visible = torch.get_device_module(str(device).partition(":")[0]).device_count()
        return {rank: [rank % visible] for rank in range(self.world_size)}


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
