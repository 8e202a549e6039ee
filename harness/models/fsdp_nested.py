"""``NestedWrappedModule`` and its kin: linear layers that FSDP1 wraps one inside another."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.fsdp.wrap import always_wrap_policy

from harness.models.fsdp import (
    DEVICEInitMode,
    FSDPInitMode,
    FSDPTestModel,
    in_fsdp,
    moved_after,
    on_device,
)

Wrap = Callable[[nn.Module], nn.Module]


class NestedWrappedModule(FSDPTestModel):
    """Linear layers, 8 numbers a row in and out, of which ``init`` wraps some in FSDP1, one inside another.

    The whole is not wrapped. With ``deterministic`` the parameters are the same in every rank and run.
    """

    def __init__(
        self,
        group: ProcessGroup,
        wrap_fsdp: bool,
        device_init_mode: DEVICEInitMode,
        deterministic: bool,
        **fsdp_kwargs: Any,
    ) -> None:
        super().__init__()
        self.rank, self.world_size = group.rank(), group.size()
        self._moves = device_init_mode is DEVICEInitMode.DEVICE_BEFORE
        if deterministic:
            torch.manual_seed(0)

        def wrapped(module: nn.Module) -> nn.Module:
            return in_fsdp(module, group, **fsdp_kwargs) if wrap_fsdp else module

        self.module = self._layers(wrapped)

    def _linear(self, inputs: int, outputs: int) -> nn.Module:
        return on_device(nn.Linear(inputs, outputs), self._moves)

    def _layers(self, wrapped: Wrap) -> nn.Sequential:
        first, inner = self._linear(8, 4), wrapped(self._linear(4, 16))
        pair = wrapped(nn.Sequential(inner, self._linear(16, 16)))
        return nn.Sequential(first, pair, wrapped(self._linear(16, 4)), self._linear(4, 8))

    def get_input(self, device: torch.device) -> tuple[Tensor, ...]:
        """Four rows that differ by rank."""
        torch.manual_seed(self.rank + 1)
        return (torch.rand((4, 8), device=device),)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of 8 numbers in and out."""
        return self.module(x)

    def get_loss(self, input: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """The sum of the output."""
        return output.sum()

    def run_backward(self, loss: Tensor) -> None:
        """Computes the gradients of a loss."""
        loss.backward()

    @classmethod
    def init(
        cls,
        group: ProcessGroup,
        fsdp_init_mode: FSDPInitMode,
        device_init_mode: DEVICEInitMode,
        fsdp_kwargs: dict[str, Any] | None = None,
        deterministic: bool = False,
        **own: Any,
    ) -> nn.Module:
        """A new model, without FSDP or with its inner parts in FSDP1; ``own`` is a subclass's."""
        recursive = _is_recursive(fsdp_init_mode)
        options = {**(fsdp_kwargs or {})} if recursive else {}
        model = cls(group, recursive, device_init_mode, deterministic=deterministic, **own, **options)
        return moved_after(model, device_init_mode) if recursive else model


def _is_recursive(mode: FSDPInitMode) -> bool:
    if not isinstance(mode, FSDPInitMode):
        raise ValueError(f"fsdp_init_mode is {mode!r}; give a member of FSDPInitMode")
    return mode is FSDPInitMode.RECURSIVE


class AlwaysWrapNestedWrappedModule(NestedWrappedModule):
    """``NestedWrappedModule`` whose every module FSDP1 wraps, the whole too."""

    @classmethod
    def init(
        cls,
        group: ProcessGroup,
        fsdp_init_mode: FSDPInitMode,
        device_init_mode: DEVICEInitMode,
        fsdp_kwargs: dict[str, Any] | None = None,
        deterministic: bool = False,
        **own: Any,
    ) -> nn.Module:
        """A new model, without FSDP or with FSDP1 around each module."""
        plain = super().init(
            group, FSDPInitMode.NO_FSDP, device_init_mode, deterministic=deterministic, **own
        )
        if not _is_recursive(fsdp_init_mode):
            return plain
        options = {"auto_wrap_policy": always_wrap_policy, **(fsdp_kwargs or {})}
        return moved_after(in_fsdp(plain, **options), device_init_mode)


class NonUniformReqGradNWM(NestedWrappedModule):
    """``NestedWrappedModule`` that trains its last layer alone, in one FSDP1 unit with the one before.

    So a rank may hold no part of what is trained.
    """

    # With and without the name that FSDP1 puts between; the last layer is the second of the third part.
    _TRAINED = re.compile(r"module\.2\.(?:_fsdp_wrapped_module\.)?1\.")

    def _layers(self, wrapped: Wrap) -> nn.Sequential:
        first, inner = self._linear(8, 4), wrapped(self._linear(4, 16))
        pair = wrapped(nn.Sequential(inner, self._linear(16, 16)))
        return nn.Sequential(first, pair, wrapped(nn.Sequential(self._linear(16, 4), self._linear(4, 8))))

    @classmethod
    def init(cls, *args: Any, **kwargs: Any) -> nn.Module:
        """A new model, as ``NestedWrappedModule.init`` makes it, with all but the last layer frozen."""
        model = super().init(*args, **kwargs)
        for name, parameter in model.named_parameters():
            if not cls._TRAINED.match(name):
                parameter.requires_grad_(False)
        return model
