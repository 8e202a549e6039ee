"""``FSDPTestModel``, what a model for FSDP1's tests has to offer, and how its ``init`` wraps and places it.

A model is made by its ``init``: plain or with FSDP1 around its parts (``FSDPInitMode``), on the device before
or after that, or never (``DEVICEInitMode``). Names, sizes and parameter names of the models are those of
upstream's ``common_fsdp``.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel

from harness.requirements import probe


class FSDPInitMode(enum.Enum):
    """Whether ``init`` wraps parts of a model in FSDP1."""

    NO_FSDP = enum.auto()
    RECURSIVE = enum.auto()


class DEVICEInitMode(enum.Enum):
    """When a model moves to the accelerator: before FSDP1 wraps it, after, or never."""

    DEVICE_BEFORE = enum.auto()
    DEVICE_AFTER = enum.auto()
    DEVICE_NEVER = enum.auto()


class FSDPTestModel(nn.Module, ABC):
    """A model that brings its own input, loss and backward, and that ``init`` makes with or without FSDP1."""

    @abstractmethod
    def get_input(self, device: torch.device) -> tuple[Tensor, ...]:
        """The arguments of a forward, on that device; other ones on each rank."""

    @abstractmethod
    def get_loss(self, input: tuple[Tensor, ...], output: Any) -> Tensor:
        """The loss of an output, a scalar."""

    @abstractmethod
    def run_backward(self, loss: Tensor) -> None:
        """Computes the gradients of a loss."""

    @staticmethod
    @abstractmethod
    def init(*args: Any, **kwargs: Any) -> nn.Module:
        """A new model of this class; ``args`` begin with process group, FSDP mode and device mode."""


def on_device(module: nn.Module, now: bool = True) -> nn.Module:
    """The module, moved to this machine's accelerator if there is one and it is ``now``."""
    return module.to(probe().accelerator()[0]) if now else module


def in_fsdp(module: nn.Module, group: Any = None, **options: Any) -> FullyShardedDataParallel:
    """The module in FSDP1, which takes the CPU, where there is no accelerator, only if it is told to."""
    if probe().accelerator()[0] == "cpu":
        options = {"device_id": torch.device("cpu"), **options}
    return FullyShardedDataParallel(module, group, **options)


def moved_after(model: nn.Module, mode: DEVICEInitMode) -> nn.Module:
    """The wrapped model, on the accelerator where it is to move after it was wrapped."""
    return on_device(model, mode is DEVICEInitMode.DEVICE_AFTER)


def reduce_scatter_name() -> str:
    """The function of ``torch.distributed`` by which FSDP reduces gradients; new in torch 2.13."""
    return "reduce_scatter_single" if hasattr(dist, "reduce_scatter_single") else "reduce_scatter_tensor"


def all_gather_name() -> str:
    """The function of ``torch.distributed`` by which FSDP gathers parameters; new in torch 2.13."""
    return "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"
