"""Sums each gradient over the ranks of a process group as soon as it is complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from harness.errors import UsageError

# What `compile(group=...)` takes. None is the default group at the time of the call.
Group: TypeAlias = "dist.ProcessGroup | DeviceMesh | tuple[DeviceMesh, int | str] | None"


def check_group(group: Any) -> None:
    """Raises UsageError unless ``group`` names one group: a mesh of several dimensions needs a dimension."""
    match group:
        case None | dist.ProcessGroup() | dist.GroupMember.NON_GROUP_MEMBER:
            return
        case DeviceMesh() if group.ndim == 1:
            return
        case DeviceMesh():
            raise UsageError(
                f"group is a mesh of {group.ndim} dimensions: give (mesh, dimension), the one to sum over"
            )
        case (DeviceMesh() as mesh, dimension):
            names = mesh.mesh_dim_names or ()
            if dimension not in [*range(mesh.ndim), *names]:
                raise UsageError(
                    f"group names dimension {dimension!r} of a mesh that has {mesh.ndim}: {mesh}"
                )
        case _:
            raise UsageError(
                f"group is {group!r}: give a process group, a mesh of one dimension, or (mesh, dimension)"
            )


def name_of_group(group: Group) -> str:
    """The name under which functional collectives know the group.

    Raises UsageError if torch.distributed is not initialized, or if this rank is not in the group.
    """
    if not dist.is_initialized():
        raise UsageError("gradients have no process group to be summed over: call init_process_group first")
    found = _process_group(group)
    if dist.get_rank(found) < 0:
        raise UsageError("this rank is not in the group that gradients are to be summed over")
    return str(found.group_name)


def _process_group(group: Group) -> Any:
    if isinstance(group, DeviceMesh):
        return group.get_group()
    if isinstance(group, tuple):
        mesh, dimension = group
        return mesh.get_group(dimension)
    return dist.group.WORLD if group is None else group


def summed(gradient: Tensor, group_name: str) -> Tensor:
    """Sums a gradient over the ranks of a group; in a graph this is an all-reduce and its wait.

    Raises UsageError for a sparse gradient.
    """
    if gradient.layout is not torch.strided:
        raise UsageError("a gradient is sparse, which no graph can sum: give the embedding sparse=False")
    result = torch.ops._c10d_functional.all_reduce(gradient, "sum", group_name)
    waited: Tensor = torch.ops._c10d_functional.wait_tensor(result)
    return waited


@contextmanager
def reducing(parameters: Iterable[Tensor], group_name: str) -> Iterator[None]:
    """A context in which backward leaves gradients that are summed over the ranks in the parameters.

    It uses a tensor hook on each parameter, which autograd calls once per backward with the gradients of all
    uses of the parameter added up.
    """
    with ExitStack() as hooks:
        for parameter in parameters:
            if parameter.requires_grad:
                handle = parameter.register_hook(lambda gradient: summed(gradient, group_name))
                hooks.callback(handle.remove)
        yield
