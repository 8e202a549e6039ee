"""The names that programs about steps of FSDP1 and FSDP2 use; ``steps.txt`` has what comes of them.

The process is rank 7 of a world of which nobody else is there (``other_ranks.py``).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import fsdp, optim
from torch.distributed._composable import replicate_with_fsdp
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, _fully_shard, fully_shard
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from torch.utils.checkpoint import checkpoint

from suites.fsdp.kept_fields import Fields, shown
from suites.fsdp.other_ranks import others
from suites.fsdp.schedule import Schedule, changes, scheduled
from suites.told_programs import called, numbers, told_by

#: Fields that say what those of another object say, or that are the same in all steps, or another in each
#: process.
# fmt: off
LEFT_OUT = frozenset((
    "comm_ctx", "_comm_ctx", "_state_ctx", "device_handle", "_device_handle", "_fsdp_param_groups",
    "_modules", "fsdp_params", "_all_handles", "_exec_order_data", "_free_event_queue", "flat_param",
    "params", "_pre_forward_hook_handle", "_post_forward_hook_handle", "_post_load_hook_handle",
    "_orig_param_uid", "_module_to_pre_save_state_dict_hook_handle",
    "_module_to_pre_load_state_dict_hook_handle",
    "_post_backward_hook_state", *(vars(nn.Module()).keys() - {"training"}),
))
# fmt: on
#: How a program asks for so many steps.
_STEPS = re.compile(r"r\.step\)?\(([0-9])")


class Block(nn.Module):
    """Rows that are weighed by their number, and a bias; tells when it computes and is to differentiate."""

    def __init__(self, rows: int = 5, columns: int = 2, name: str = "") -> None:
        super().__init__()
        self.weight = nn.Parameter(numbers(rows, columns) % 3 - 1)
        self.bias = nn.Parameter(numbers(3) % 2)
        self.name, self.told = name, lambda words: None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.told(f"{self.name} computes")
        weighed = self.weight * numbers(len(self.weight), 1).to(self.weight.dtype)
        y = x * weighed.sum(0) + self.bias.sum()
        if y.requires_grad:
            y.register_hook(lambda grad: self.told(f"{self.name} gets {grad.flatten().tolist()}"))
        return y


class Model(nn.Module):
    """Two blocks, or one, and a parameter beside them."""

    def __init__(self, *, small: bool = False) -> None:
        super().__init__()
        self.one = Block(5, name="one")
        if not small:
            self.two = Block(4, name="two")
        self.scale = nn.Parameter(numbers(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.children():
            x = block(x)
        return x * self.scale


def pair() -> DeviceMesh:
    return DeviceMesh("cpu", [3, 7], mesh_dim_names=("d",))


def four() -> DeviceMesh:
    return DeviceMesh("cpu", [1, 4, 7, 9], mesh_dim_names=("d",))


def square() -> DeviceMesh:
    return DeviceMesh("cpu", [[1, 4], [7, 9]], mesh_dim_names=("r", "s"))


def distributed(model: nn.Module, mesh: DeviceMesh, *places: Placement) -> nn.Module:
    """The model, of whose parameters this rank, which is the last of the mesh, has these parts."""
    _clear_sharding_prop_cache()  # else a parameter is on the equal mesh of an earlier program
    for module in model.modules():
        for name, of in list(module.named_parameters(recurse=False)):
            part = of.detach()
            for place, parts in zip(places, mesh.shape, strict=True):
                if isinstance(place, Shard):
                    part = part.chunk(parts, place.dim % of.ndim)[-1]
            whole = {"shape": of.shape, "stride": of.stride()}
            made = DTensor.from_local(part.contiguous(), mesh, places, run_check=False, **whole)
            setattr(module, name, nn.Parameter(made))
    return model


def sharded(
    model: nn.Module | None = None, *, small: bool = False, mesh: Any = None, blocks: bool = True, **how: Any
) -> nn.Module:
    """A model whose blocks are units of FSDP2, and the rest of it."""
    model = Model(small=small) if model is None else model
    mesh = pair() if mesh is None else mesh
    for each in list(model.children()) if blocks else ():
        fully_shard(each, mesh=mesh, **how)
    return fully_shard(model, mesh=mesh, **how)


def wrapped(
    model: nn.Module | None = None, *, small: bool = False, group: Any = None, blocks: bool = True, **how: Any
) -> FSDP:
    """A model whose blocks are units of FSDP1, and the rest of it."""
    model = Model(small=small) if model is None else model
    if "device_mesh" not in how:
        how["process_group"] = dist.new_group([3, 7]) if group is None else group
    how = {"use_orig_params": True, "device_id": torch.device("cpu"), **how}
    for name, each in list(model.named_children()) if blocks else ():
        setattr(model, name, FSDP(each, **how))
    return FSDP(model, **how)


class Run:
    """Steps of a model, and what FSDP keeps and asks of its device meanwhile."""

    def __init__(self, tell: Callable[..., None], schedule: Schedule, model: nn.Module) -> None:
        self.tell, self.schedule, self.model = tell, schedule, model
        self._fields = Fields(LEFT_OUT)
        for each in model.modules():
            if isinstance(each, Block):
                each.told = self.look

    def look(self, words: str = "") -> None:
        """Tell what was scheduled since the last time, and what is kept now."""
        objects = _of_fsdp1(self.model) or _of_fsdp2(self.model)
        streams = [of for name, of in objects.items() if name in ("streams", "root")]
        self.tell(f"-- {words}", *self.schedule.taken(*streams), *self._fields.changes(objects))

    def quietly(self) -> None:
        """Look, and tell nothing."""
        self.schedule.taken()
        self._fields.changes(_of_fsdp1(self.model) or _of_fsdp2(self.model))

    def step(self, times: int = 1, *given: Any, backward: bool = True, **named: Any) -> Any:
        """Forwards, each with its backward; how a step is refused, is told."""
        y = None
        for _ in range(times):
            x = given or (numbers(2, 2).requires_grad_(),)
            y = called(self.model, *x, **named)
            self.look("forward")
            if backward and not isinstance(y, str):
                y = called(y.sum().backward) or y
                self.tell(*(each.grad for each in x if isinstance(each, torch.Tensor)))
                self.look("backward")
            self.tell(y)
        return y


def _of_fsdp2(model: nn.Module) -> dict[str, Any]:
    """All objects that FSDP2 has of a model, by name."""
    found: dict[str, Any] = {}
    states: dict[Any, str] = {}
    names = {module: name or "root" for name, module in model.named_modules()}
    for module, name in names.items():
        if isinstance(module, FSDPModule):
            states.setdefault(module._get_fsdp_state(), name)
    for state, name in states.items():
        found[name] = state
        found.setdefault("context", state._state_ctx)
        found.setdefault("streams", state._comm_ctx)
        for number, group in enumerate(state._fsdp_param_groups):
            found[f"{name}, group {number}"] = group
            for param in group.fsdp_params:
                found[f"{names[param._module_info.module]}.{param._module_info.param_name}"] = param
    return found


def _of_fsdp1(model: nn.Module) -> dict[str, Any]:
    """All objects that FSDP1 has of a model, by name."""
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        if isinstance(module, FSDP):
            name = name.replace("_fsdp_wrapped_module.", "") or "root"
            found[name] = module
            found.setdefault("order", module._exec_order_data)
            found.setdefault("queue", module._free_event_queue)
            if module._handle is not None:
                found[f"{name}, handle"] = module._handle
                found[f"{name}, parameter"] = Attributes(module._handle.flat_param)
    return found


class Attributes:
    """A flat parameter as an object whose fields are its attributes, its numbers and its gradient."""

    def __init__(self, flat: Any) -> None:
        vars(self).update(vars(flat), data=flat)


@contextlib.contextmanager
def run(
    tell: Callable[..., None],
    model: nn.Module | Callable[[], nn.Module] = sharded,
    *,
    whole: bool = False,
    **how: Any,
) -> Iterator[Run]:
    """Steps of a model, or of what a function makes, of which fields are told whenever they change.

    ``whole``: all fields are told at first.
    """
    with scheduled() as schedule, others(schedule):
        made = Run(tell, schedule, model if isinstance(model, nn.Module) else model(**how))
        if whole:
            made.look("made")
        else:
            made.quietly()
        yield made


NAMES = {
    **{each.__name__: each for each in (Block, Model, pair, four, square, sharded, wrapped, run)},
    **{each.__name__: each for each in (called, numbers, checkpoint, DeviceMesh, DTensor, Replicate, Shard)},
    **{each.__name__: each for each in (distributed, shown, FSDP, FSDPModule, fully_shard)},
    **{name: getattr(fsdp, name) for name in fsdp.__all__},
    "FSDP": FSDP,
    "fsdp": fsdp,
    "inner": _fully_shard,
    "optim": optim,
    "replicate": replicate_with_fsdp.replicate,
    "thing": SimpleNamespace,
    "torch": torch,
    "dist": dist,
    "nn": nn,
}


def answers() -> Callable[[str], list[str]]:
    """A function that says what a program tells; of steps what is not as in usual ones, if that is less."""
    usual: dict[str, list[str]] = {}

    def answer(program: str) -> list[str]:
        found = told_by(program, NAMES)
        kind = "".join(f", {word}" for word in ("wrapped", "small=True") if word in program)
        steps = sum(map(int, _STEPS.findall(program)))
        like = f"with run(tell{kind}) as r: r.step({steps})"
        if program == like or not steps:
            return found
        if like not in usual:
            usual[like] = told_by(like, NAMES)
        return min(found, changes(usual[like], found), key=lambda lines: sum(map(len, lines)))

    return answer
