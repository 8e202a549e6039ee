"""The names that programs about FSDP1 use, which ``fsdp1_calls.txt`` has with what comes of them.

The process is the second of two ranks, of which the other one is not there: what would be gathered, is this
rank's own.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._comm_hooks import default_hooks
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import (
    CPUOffload,
    MixedPrecision,
    ShardingStrategy,
    _common_utils,
    _debug_utils,
    _exec_order_utils,
    _flat_param,
    _fsdp_extensions,
    _init_utils,
    _limiter_utils,
    _optim_utils,
    _runtime_utils,
    _shard_utils,
    _state_dict_utils,
    _unshard_param_utils,
    _wrap_utils,
    fully_sharded_data_parallel,
    wrap,
)
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp._flat_param import FlatParamHandle, HandleShardingStrategy, HandleTrainingState
from torch.testing._internal.two_tensor import TwoTensor

from suites.told_programs import called, numbers

CPU, META = torch.device("cpu"), torch.device("meta")


class Unit(nn.Module):
    """Two parameters, the second of which has two names, a frozen one, and a buffer."""

    def __init__(self, frozen: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(numbers(2, 3))
        self.bias = nn.Parameter(numbers(5, start=11))
        self.again = self.bias
        self.frozen = nn.Parameter(numbers(2, start=21), requires_grad=not frozen)
        self.register_buffer("count", numbers(2, start=31))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.weight.sum() + self.bias.sum() + self.again.prod() * self.frozen[0]).sum()


class Model(nn.Module):
    """A unit, and a parameter and a buffer beside it."""

    def __init__(self, frozen: bool = True) -> None:
        super().__init__()
        self.unit = Unit(frozen)
        self.even = nn.Parameter(numbers(4, 2, start=41))
        self.register_buffer("own", numbers(3, start=51))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.unit(x) + self.even.sum()


class Small(nn.Module):
    """A parameter of two rows, and what it does to others."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(numbers(2, 2))
        self.scale = nn.Parameter(numbers(1, start=3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.to(self.weight.dtype) @ self.weight) * self.scale


def pair() -> dist.ProcessGroup:
    return dist.new_group([3, 7])


def wrapped(module: nn.Module | None = None, group: Any = None, **how: Any) -> FSDP:
    """A module that is sharded over two ranks."""
    how = {"use_orig_params": True, "device_id": CPU, **how}
    if group is None and "device_mesh" not in how:
        group = pair()
    return FSDP(Unit(False) if module is None else module, group, **how)


def handle(
    module: nn.Module | None = None,
    *,
    params: Any = None,
    strategy: str = "FULL_SHARD",
    sharded: bool = True,
    orig: bool = True,
    offload: bool = False,
    kept: bool = False,
    dtypes: Any = (None, None),
    group: Any = None,
) -> FlatParamHandle:
    """The handle of a unit's parameters, whose flat parameter is sharded or not yet."""
    module = Unit(False) if module is None else module
    made = FlatParamHandle(
        list(module.parameters()) if params is None else params,
        module,
        CPU,
        HandleShardingStrategy[strategy],
        offload,
        *dtypes,
        kept,
        pair() if group is None else group,
        orig,
    )
    if sharded:
        made.shard()
        # Memory is not pinned where there is no accelerator.
        with mock.patch.object(torch.Tensor, "pin_memory", lambda tensor, **_: tensor):
            made.init_flat_param_attributes()
    return made


def unsharded(**how: Any) -> FlatParamHandle:
    """A handle that holds all of its parameters."""
    made = handle(**how)
    made.pre_unshard()
    made.unshard()
    made.post_unshard()
    return made


def grads(module: nn.Module) -> dict[str, Any]:
    """The gradients of a module's parameters, and whether they are parts of another tensor."""
    named = module.named_parameters(remove_duplicate=False)
    return {name: of.grad if of.grad is None else (of.grad, of.grad._is_view()) for name, of in named}


def params(module: nn.Module) -> dict[str, Any]:
    """A module's parameters, and what kind they are."""
    return {
        name: (type(of).__name__, of.requires_grad, of)
        for each in module.modules()
        for name, of in {**each._parameters, **vars(each)}.items()
        if isinstance(of, torch.Tensor)
    }


def in_state(made: FlatParamHandle, state: str, **of_flat: Any) -> FlatParamHandle:
    """The handle, in that state of training, and its flat parameter with these attributes."""
    made._training_state = HandleTrainingState[state]
    for name, value in of_flat.items():
        setattr(made.flat_param, name, value)
    return made


def refused(function: Any, *args: Any) -> str:
    """How a call is refused, without what it gives otherwise."""
    answer = called(function, *args)
    return answer if isinstance(answer, str) else "is done"


def thousandths(tensor: torch.Tensor) -> torch.Tensor:
    """What does not depend on the order in which numbers are summed."""
    return (tensor * 1000).round()


def ordered(value: Any) -> Any:
    """A dictionary, and those in it, in the order of their keys."""
    if not isinstance(value, dict):
        return value
    return {key: ordered(value[key]) for key in sorted(value, key=str)}


def named_in(root: nn.Module, modules: Any) -> list[str]:
    """The names of modules in one, sorted."""
    names = {module: name or "root" for name, module in root.named_modules()}
    return sorted(names.get(each, "another") for each in modules)


def named_of(root: nn.Module, tensors: Any) -> list[str]:
    """The names of parameters of a module, sorted."""
    names = {of: name for name, of in root.named_parameters()}
    return sorted(names.get(each, "another") for each in tensors)


def state_of(state: Any) -> list[Any]:
    """What is known of the groups of a state; what is refused as it is."""
    if isinstance(state, str):
        return [state]
    groups = (state.process_group, getattr(state, "_inter_node_pg", None))
    of_hook = getattr(state, "_inter_node_state", None)
    return [
        *(dist.get_process_group_ranks(each) for each in groups if each is not None),
        *(state.rank, state.world_size, state._gradient_predivide_factor, state._gradient_postdivide_factor),
        of_hook and (of_hook.process_group is groups[1], of_hook.world_size),
        getattr(state, "_device_mesh", None),
    ]


def two_tensored() -> nn.Module:
    """A module of which a parameter and a buffer are tensors of two tensors each."""
    module = Unit().to(META)
    module.both = nn.Parameter(TwoTensor(module.weight.detach(), module.weight.detach()))
    module.register_buffer("two", TwoTensor(module.count, module.count))
    return module


def devices(module: nn.Module) -> dict[str, str]:
    """Where parameters and buffers are."""
    every = [*module.named_parameters(), *module.named_buffers()]
    return {name: f"{of.device}{'' if of.grad is None else f' {of.grad.device}'}" for name, of in every}


NAMES = {
    **{
        each.__name__.rpartition(".")[2]: each
        for each in (_common_utils, _debug_utils, _flat_param, _init_utils, _optim_utils)
    },
    **{
        each.__name__.rpartition(".")[2]: each
        for each in (_exec_order_utils, _fsdp_extensions, _limiter_utils, _shard_utils, _state_dict_utils)
    },
    **{each.__name__.rpartition(".")[2]: each for each in (_unshard_param_utils, _wrap_utils)},
    **{each.__name__.rpartition(".")[2]: each for each in (_runtime_utils, wrap, nn, torch)},
    **{
        each.__name__: each
        for each in (numbers, Unit, Model, Small, pair, wrapped, handle, unsharded, grads, params, in_state)
    },
    **{
        each.__name__: each
        for each in (
            ordered,
            thousandths,
            called,
            refused,
            named_in,
            named_of,
            state_of,
            two_tensored,
            devices,
            FSDP,
            FlatParamHandle,
            DeviceMesh,
        )
    },
    **{each.__name__: each for each in (CPUOffload, MixedPrecision, ShardingStrategy)},
    "FSDP": FSDP,
    "default_hooks": default_hooks,
    "full": fully_sharded_data_parallel,
    "thing": SimpleNamespace,
    "dist": dist,
    "CPU": CPU,
    "META": META,
}
