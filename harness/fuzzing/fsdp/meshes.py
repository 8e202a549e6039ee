"""The meshes of a program's steps, and how states come to a new model, on the same mesh or on another one.

Scripts contain this text.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed
import torch.distributed.checkpoint
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

Meshes = dict[tuple[int, ...], DeviceMesh]
Trained = tuple[nn.Module, torch.optim.Optimizer]


def mesh_of(shape: Sequence[int]) -> DeviceMesh:
    """A mesh over all ranks, whose last dimension shards, and the one before it replicates."""
    return init_device_mesh("cpu", tuple(shape), mesh_dim_names=("replicate", "shard")[-len(shape) :])


def shapes_of(shape: Sequence[int], restores: Sequence[str]) -> list[tuple[int, ...]]:
    """The shape of the mesh before the first step, and in each step, by how states are restored before it.

    A mesh that is resized gets two shards, or one, or, where it had two dimensions, one for each rank.
    """
    found, world = [tuple(shape)], math.prod(shape)
    for how in restores:
        if how != "resized":
            found.append(found[-1])
        elif len(found[-1]) == 2:
            found.append((world,))
        else:
            found.append((world // 2, 2) if world % 2 == 0 and world > 2 else (world, 1))
    return found


def meshes_of(shape: Sequence[int], restores: Sequence[str], kept: Meshes) -> list[DeviceMesh]:
    """The meshes of ``shapes_of``, which are kept in ``kept``."""
    shapes = shapes_of(shape, restores)
    for each in shapes:
        if each not in kept:
            kept[each] = mesh_of(each)
    return [kept[each] for each in shapes]


def carry_over(source: Trained, target: Trained, restores: str) -> None:
    """Copies the states of a module and its optimizer to others, by state dicts, full or of shards.

    Those of a mesh that is ``resized`` are saved, and loaded into the shards of the other mesh.
    """
    how = StateDictOptions(full_state_dict=restores == "full", strict=False)
    own, optims = get_state_dict(*source, options=how)
    if restores == "resized":
        saved = {"model": own, "optimizer": optims}
        own, optims = get_state_dict(*target, options=how)
        through_files(saved, {"model": own, "optimizer": optims})
    set_state_dict(*target, model_state_dict=own, optim_state_dict=optims, options=how)


def through_files(source: dict[str, Any], target: dict[str, Any]) -> None:
    """Saves a state dict of all ranks as a checkpoint, and loads that into another one."""
    with tempfile.TemporaryDirectory() as own:
        path = [own]
        torch.distributed.broadcast_object_list(path)
        torch.distributed.checkpoint.save(source, checkpoint_id=path[0])
        torch.distributed.checkpoint.load(target, checkpoint_id=path[0])
        torch.distributed.barrier()  # rank 0 removes the files
