"""``ModuleWithDelay``: a model for FSDP1's tests that is kept busy where communication could be late."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn

from harness.models.delay import delay
from harness.models.fsdp import DEVICEInitMode, FSDPTestModel, reduce_scatter_name
from harness.models.fsdp_nested import NestedWrappedModule


class ModuleWithDelay(FSDPTestModel):
    """An ``FSDPTestModel`` that is delayed after its loss, and before each reduction of gradients."""

    def __init__(self, module: nn.Module, delay_after_loss_ms: int, delay_before_reduction_ms: int) -> None:
        super().__init__()
        self.module: Any = module
        self.delay_after_loss_ms = delay_after_loss_ms
        self.delay_before_reduction_ms = delay_before_reduction_ms

    def get_input(self, device: torch.device) -> tuple[Tensor, ...]:
        """The inner model's input."""
        given: tuple[Tensor, ...] = self.module.get_input(device)
        return given

    def forward(self, x: Tensor) -> Tensor:
        """The inner model's output."""
        return self.module(x)

    def get_loss(self, input: tuple[Tensor, ...], output: Any) -> Tensor:
        """The inner model's loss, after which the device is delayed."""
        loss = self.module.get_loss(input, output)
        delay(self.delay_after_loss_ms)
        return loss

    def run_backward(self, loss: Tensor) -> None:
        """The inner model's backward, in which each reduce-scatter waits before it starts."""
        name = reduce_scatter_name()
        reduce_scatter = getattr(dist, name)

        def late(*args: Any, **kwargs: Any) -> Any:
            delay(self.delay_before_reduction_ms)
            return reduce_scatter(*args, **kwargs)

        with mock.patch.object(dist, name, late):
            self.module.run_backward(loss)

    @staticmethod
    def init(
        module_class: type[FSDPTestModel],
        *model_args: Any,
        delay_before_reduction_ms: int,
        delay_after_loss_ms: int,
        **model_kwargs: Any,
    ) -> nn.Module:
        """A new model of ``module_class``, which its ``init`` makes of the other arguments, with delays."""
        inner = module_class.init(*model_args, **model_kwargs)
        return ModuleWithDelay(inner, delay_after_loss_ms, delay_before_reduction_ms)


class NestedWrappedModuleWithDelay(ModuleWithDelay):
    """``NestedWrappedModule`` with delays, none by default."""

    @staticmethod
    def init(
        *args: Any, delay_after_loss_ms: int = 0, delay_before_reduction_ms: int = 0, **kwargs: Any
    ) -> nn.Module:
        """A new model; the arguments but the delays are those of ``NestedWrappedModule.init``."""
        if len(args) < 3:
            kwargs.setdefault("device_init_mode", DEVICEInitMode.DEVICE_AFTER)
        return ModuleWithDelay.init(
            NestedWrappedModule,
            *args,
            delay_after_loss_ms=delay_after_loss_ms,
            delay_before_reduction_ms=delay_before_reduction_ms,
            **kwargs,
        )
