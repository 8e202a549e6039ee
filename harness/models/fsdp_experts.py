"""``MixtureOfExperts``: a nested model with a layer of its own in each rank, which FSDP1 does not shard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.fsdp import _runtime_utils

from harness.models.delay import delay
from harness.models.fsdp import DEVICEInitMode, in_fsdp
from harness.models.fsdp_nested import NestedWrappedModule


class MixtureOfExperts(NestedWrappedModule):
    """Four linear layers, the third of which is an expert: every rank has another one, which is not sharded.

    Parameters of the expert have the attribute ``expert``. Without FSDP1, ``run_backward`` averages the other
    gradients over the ranks. ``delay_before_free_ms`` delays the end of the expert's forward.
    """

    def __init__(
        self,
        group: ProcessGroup,
        wrap_fsdp: bool,
        device_init_mode: DEVICEInitMode,
        delay_before_free_ms: int = 0,
        deterministic: bool = False,
        **fsdp_kwargs: Any,
    ) -> None:
        super().__init__(group, False, device_init_mode, deterministic)
        self.group, self.wrap_fsdp, self.delay_before_free_ms = group, wrap_fsdp, delay_before_free_ms
        if deterministic:
            torch.manual_seed(42 + self.rank)
        expert = self._linear(23, 12)
        self.num_expert_params = sum(p.numel() for p in expert.parameters())
        for parameter in expert.parameters():
            parameter.expert = True
        if deterministic:
            torch.manual_seed(0)
        shared = self._linear(12, 23)
        if wrap_fsdp:
            # Every rank takes part in making every group.
            alone = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
            expert = in_fsdp(expert, alone, **fsdp_kwargs)
            shared = in_fsdp(shared, group, **fsdp_kwargs)
        self.module = nn.Sequential(self._linear(8, 12), shared, expert, self._linear(12, 8))

    def forward(self, x: Tensor) -> Tensor:
        """Rows of 8 numbers in and out."""
        if self.delay_before_free_ms <= 0 or not self.wrap_fsdp:
            return self.module(x)
        with mock.patch.object(_runtime_utils, "_reshard", self._late(_runtime_utils._reshard)):
            return self.module(x)

    def _late(self, reshard: Callable[..., Any]) -> Callable[..., Any]:
        def late(*args: Any, **kwargs: Any) -> Any:
            delay(self.delay_before_free_ms)
            return reshard(*args, **kwargs)

        return late

    def run_backward(self, loss: Tensor) -> None:
        """Computes the gradients; averages those that belong to no expert, where FSDP1 does not."""
        super().run_backward(loss)
        if self.wrap_fsdp:
            return
        for parameter in self.parameters():
            if parameter.grad is not None and not hasattr(parameter, "expert"):
                parameter.grad /= self.world_size
                dist.all_reduce(parameter.grad, group=self.group)
