"""The names that programs about DDP and what stands beside it use, which ``ddp_calls.txt`` has as sections.

The process is a rank of a world of which the others are not there: what would be summed, is its own.
"""

from __future__ import annotations

import collections
import dataclasses
import pickle
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn.functional
from torch import nn
from torch.distributed.algorithms import join
from torch.distributed.algorithms._checkpoint import checkpoint_wrapper
from torch.distributed.algorithms._comm_hooks import default_hooks as fsdp_hooks
from torch.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    optimizer_overlap_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)
from torch.distributed.algorithms.model_averaging import averagers, hierarchical_model_averager
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import wrap
from torch.nn.modules._functions import SyncBatchNorm
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.parallel import distributed as ddp

from suites.told_programs import called, noted, numbers


class Unit(nn.Module):
    """Two parameters, of which one may be frozen, and a buffer."""

    def __init__(self, frozen: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(numbers(2, 3))
        self.bias = nn.Parameter(numbers(3, start=11), requires_grad=not frozen)
        self.register_buffer("count", numbers(2, start=31))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


@dataclasses.dataclass
class Two:
    """Two values."""

    one: object
    other: object


def ranks(*of: int) -> Any:
    """A group of ranks with this one."""
    return dist.new_group([*of, 7])


def grads(module: nn.Module) -> dict[str, Any]:
    """The gradients of a module's parameters."""
    return {name: of.grad for name, of in module.named_parameters()}


def fields(of: Any, *names: str) -> dict[str, Any]:
    """What an object has under these names; what it is refused with as it is."""
    return {name: getattr(of, name, "nothing") for name in names} if not isinstance(of, str) else {"is": of}


def settings(of: Any) -> dict[str, Any]:
    """What is set on a replica: numbers, words and the like; what it is refused with as it is."""
    if isinstance(of, str):
        return {"is": of}
    plain = (bool, int, str, list, set, torch.device, type(None))
    found = {name: value for name, value in vars(of).items() if isinstance(value, plain)}
    for name in ("_module_parameters", "_delay_all_reduce_params", "modules_buffers"):
        found[name] = len(found.get(name, ()))
    return {**found, "ranks": dist.get_process_group_ranks(of.process_group)}


def unusual(of: Any) -> dict[str, Any]:
    """What is set on a replica otherwise than by default."""
    usual = settings(DDP(Unit()))
    return {name: value for name, value in settings(of).items() if value != usual.get(name, "nothing")}


def replica(**attributes: Any) -> Any:
    """An object that passes for a replica, and notes what is asked of it."""
    made = noted(**attributes)
    made.__class__ = DDP
    return made


class Told(join.JoinHook):
    """A hook that notes when it is called."""

    def __init__(self, told: list[Any]) -> None:
        self.told = told

    def main_hook(self) -> None:
        self.told.append("shadows")

    def post_hook(self, is_last_joiner: bool) -> None:
        self.told.append(f"ends, {is_last_joiner}")


class Joining(join.Joinable):
    """What takes part in a join: on a device, in a group."""

    def __init__(self, device: str, group: Any) -> None:
        super().__init__()
        self.told: list[Any] = []
        self.of = torch.device(device), group

    def join_hook(self, **given: Any) -> Told:
        self.given = given
        return Told(self.told)

    @property
    def join_device(self) -> torch.device:
        return self.of[0]

    @property
    def join_process_group(self) -> Any:
        return self.of[1]


def joinable(device: str = "cpu", group: Any = None, bare: bool = False) -> Joining:
    """Something to join; a ``bare`` one has not called the constructor of what it is derived from."""
    made = Joining(device, dist.group.WORLD if group is None else group)
    if bare:
        del made._join_config
    return made


def summing(patched: Any) -> None:
    """From here on sums over ranks that are alike are had at once, with a future of them."""

    def all_reduce(tensor: torch.Tensor, group: Any = None, async_op: bool = False) -> Any:
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result([tensor.mul_(dist.get_world_size(group))])
        return SimpleNamespace(get_future=lambda: future, wait=future.wait)

    patched(dist, "all_reduce", all_reduce)


def annotated(bucket: Any = None, returns: Any = None, name: str = "hook") -> Any:
    """A communication hook with these annotations."""

    def hook(state, bucket):
        return None

    hook.__name__ = name
    hook.__annotations__ = {
        key: of for key, of in (("bucket", bucket), ("return", returns)) if of is not None
    }
    return hook


class Bucket:
    """A bucket of gradients, as a hook is given one."""

    def __init__(self, flat: torch.Tensor, *parts: torch.Tensor, index: int = 0, last: bool = True) -> None:
        self.flat, self.parts, self.place, self.last = flat, parts or (flat,), index, last

    def buffer(self) -> torch.Tensor:
        return self.flat

    def gradients(self) -> list[torch.Tensor]:
        return list(self.parts)

    def parameters(self) -> list[torch.Tensor]:
        return [torch.zeros_like(each) for each in self.parts]

    def index(self) -> int:
        return self.place

    def is_last(self) -> bool:
        return self.last

    def set_buffer(self, flat: torch.Tensor) -> None:
        self.flat = flat


NAMES = {
    **{each.__name__.rpartition(".")[2]: each for each in (join, debugging_hooks, default_hooks)},
    **{each.__name__.rpartition(".")[2]: each for each in (optimizer_overlap_hooks, post_localSGD_hook)},
    **{each.__name__.rpartition(".")[2]: each for each in (powerSGD_hook, pickle)},
    **{each.__name__: each for each in (numbers, Unit, Two, ranks, called, grads, fields, annotated, Bucket)},
    **{each.__name__: each for each in (settings, unusual, replica, joinable, summing)},
    **{each.__name__.rpartition(".")[2]: each for each in (averagers, hierarchical_model_averager)},
    **{each.__name__.rpartition(".")[2]: each for each in (checkpoint_wrapper, collections, wrap)},
    "batch_norm": SyncBatchNorm,
    "ddp": ddp,
    "DDP": DDP,
    "DeviceMesh": DeviceMesh,
    "dist": dist,
    "fsdp_hooks": fsdp_hooks,
    "functional": torch.distributed.nn.functional,
    "nn": nn,
    "thing": SimpleNamespace,
    "torch": torch,
}
