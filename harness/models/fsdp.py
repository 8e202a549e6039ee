"""``FSDPTestModel``, what a model for FSDP1's tests has to offer, and the nested models that offer it.

A model is made by its ``init``: plain or with FSDP1 around its parts (``FSDPInitMode``), on the device before
or after that, or never (``DEVICEInitMode``). Names, sizes and parameter names are those of upstream's
``common_fsdp``.
"""

from __future__ import annotations

import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.fsdp import FullyShardedDataParallel, _runtime_utils
from torch.distributed.fsdp.wrap import always_wrap_policy, wrap

from harness.models.delay import delay
from harness.requirements import probe

Wrap = Callable[[nn.Module], nn.Module]


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


def reduce_scatter_name() -> str:
    """The function of ``torch.distributed`` by which FSDP reduces gradients; new in torch 2.13."""
    return "reduce_scatter_single" if hasattr(dist, "reduce_scatter_single") else "reduce_scatter_tensor"


def all_gather_name() -> str:
    """The function of ``torch.distributed`` by which FSDP gathers parameters; new in torch 2.13."""
    return "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"


class DummyDDP(nn.Module):
    """Holds a module in ``module`` and calls it, as DistributedDataParallel does, without communication."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's output."""
        return self.module(*args, **kwargs)


def _square() -> nn.Module:
    return nn.Linear(10, 10, bias=False)


class SkipModule(nn.Module):
    """A layer without bias, ``lin``, of 10 numbers in and out, for tests that keep it out of FSDP1."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = _square()

    def forward(self, x: Tensor) -> Tensor:
        """Rows of 10 numbers in and out."""
        return self.lin(x)


class NestedLinear(nn.Module):
    """A layer without bias of 10 numbers in and out; with ``fsdp_wrap``, wrapped as ``enable_wrap`` says."""

    def __init__(self, fsdp_wrap: bool) -> None:
        super().__init__()
        layer = on_device(_square())
        self.nested_linear = wrap(layer) if fsdp_wrap else layer

    def forward(self, x: Tensor) -> Tensor:
        """Rows of 10 numbers in and out."""
        return self.nested_linear(x)


class SkipModel(nn.Module):
    """Three layers without biases: a plain one, a ``SkipModule`` and a wrapped ``NestedLinear``."""

    def __init__(self, double_nest: bool) -> None:
        super().__init__()
        self.linear = on_device(_square())
        self.linear_skip = on_device(SkipModule())
        device = torch.device(probe().accelerator()[0])
        self.nested_linear = wrap(NestedLinear(fsdp_wrap=double_nest), device_id=device)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of 10 numbers in and out."""
        return self.nested_linear(self.linear_skip(self.linear(x)))
