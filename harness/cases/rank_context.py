"""``RankContext``: what a test function with ``@pytest.mark.ranks`` knows of its rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.cases import backend_names, defaults
from harness.errors import UsageError
from harness.ranks import rendezvous

if TYPE_CHECKING:
    import torch

# The device type that a backend is made for; any other backend gets the CPU.
_DEVICES = {"nccl": "cuda", "xccl": "xpu", "hccl": "hpu"}


@dataclass(frozen=True, slots=True)
class RankContext:
    """The rank in which a test function runs: the value of its argument ``rank_context``.

    ``rank`` counts from 0. ``backend`` is that of the default process group, None where the mark asks for
    none. ``file_name`` is an empty file that all ranks of this test share, and that is in use as the
    rendezvous of the default process group where there is one.
    """

    rank: int
    world_size: int
    backend: str | None
    file_name: str

    @property
    def device(self) -> torch.device:
        """The device of this rank's tensors: the CPU, or the rank's own accelerator."""
        return self._device_for(self.backend)

    def _device_for(self, backend: str | None) -> torch.device:
        return defaults.device_of(self.rank, _DEVICES.get((backend or "").rpartition(":")[2], "cpu"))

    def init_process_group(self, backend: str | None = None, **options: Any) -> None:
        """Makes the default process group of all ranks, at their meeting place, ``file_name`` on one host.

        For a test whose mark says ``backend=None``; otherwise the group is there when the test begins.
        ``options`` are those of ``torch.distributed.init_process_group``. UsageError where torch knows
        no such backend, and where it is for an accelerator, and there is none.
        """
        import torch
        import torch.distributed as dist

        backend = backend or self.backend
        if backend is not None:
            backend_names.check_in_rank(backend)
        device = self._device_for(backend)
        if device.type != "cpu":
            if not torch.get_device_module(device.type).device_count():
                raise UsageError(
                    f"backend {backend!r} needs a device of type {device.type} for each rank, and this "
                    f"process sees none: @harness.skip_if_lt_x_gpu({self.world_size}) on the test skips it "
                    "there, and backend='gloo' takes the CPU"
                )
            torch.get_device_module(device.type).set_device(device)
        store = rendezvous.store(self.file_name, self.world_size)
        dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.world_size, **options)
