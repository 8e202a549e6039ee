"""Where a DTensor program runs: in this rank among others, or in one process that plays every rank.

Both place inputs without DTensor's own code and show what a rank holds; ``execute`` needs no more of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

from harness.fuzzing.dtensors.placing import held
from harness.ranks.local import rank as local


class Ranks(Protocol):
    """The ranks of a program."""

    def mesh(self, shape: tuple[int, ...]) -> DeviceMesh:
        """A mesh over all ranks."""
        ...

    def placed(self, whole: torch.Tensor, mesh: DeviceMesh, placements: list[Any]) -> DTensor:
        """A DTensor of which each rank holds its part of ``whole``."""
        ...

    def held(self, tensor: torch.Tensor) -> Mapping[int, torch.Tensor]:
        """What each rank that this process knows of holds of a tensor, by the rank's number."""
        ...

    def plain(self) -> contextlib.AbstractContextManager[Any]:
        """A region for tensors that are no rank's."""
        ...


class OneRank:
    """This process is one rank of a process group; its meshes are kept from program to program."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._meshes: dict[tuple[int, ...], DeviceMesh] = {}

    def mesh(self, shape: tuple[int, ...]) -> DeviceMesh:
        """A mesh over all ranks; all of them have to ask for it."""
        if shape not in self._meshes:
            self._meshes[shape] = init_device_mesh("cpu", shape)
        return self._meshes[shape]

    def placed(self, whole: torch.Tensor, mesh: DeviceMesh, placements: list[Any]) -> DTensor:
        """A DTensor of this rank's part and the others'."""
        return _distributed(held(whole.detach(), self._rank, mesh.shape, placements), whole, mesh, placements)

    def held(self, tensor: torch.Tensor) -> Mapping[int, torch.Tensor]:
        """This rank's tensor."""
        return {self._rank: tensor}

    def plain(self) -> contextlib.AbstractContextManager[Any]:
        """A region without effect."""
        return contextlib.nullcontext()


class PlayedRanks:
    """One process that plays all ranks on torch's local tensors; make one by ``played``."""

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        self._meshes: dict[tuple[int, ...], DeviceMesh] = {}

    def mesh(self, shape: tuple[int, ...]) -> DeviceMesh:
        """A mesh over all ranks."""
        if shape not in self._meshes:
            with local.outside():
                self._meshes[shape] = init_device_mesh("cpu", shape)
        return self._meshes[shape]

    def placed(self, whole: torch.Tensor, mesh: DeviceMesh, placements: list[Any]) -> DTensor:
        """A DTensor of all ranks' parts."""
        from torch.distributed._local_tensor import LocalTensor

        with local.outside():
            bare, ranks = whole.detach(), range(self._world_size)
            parts = {rank: held(bare, rank, mesh.shape, placements) for rank in ranks}
            own = LocalTensor(parts)
        return _distributed(own, whole, mesh, placements)

    def held(self, tensor: torch.Tensor) -> Mapping[int, torch.Tensor]:
        """Each rank's tensor."""
        return dict(local.by_rank(tensor) or [(rank, tensor) for rank in range(self._world_size)])

    def plain(self) -> contextlib.AbstractContextManager[Any]:
        """A region of ordinary tensors."""
        return local.outside()


@contextlib.contextmanager
def played(world_size: int) -> Iterator[PlayedRanks]:
    """A region in which this process plays ``world_size`` ranks; it may have no process group before."""
    local.init_group(world_size)
    try:
        with local.simulation(world_size):
            yield PlayedRanks(world_size)
    finally:
        torch.distributed.destroy_process_group()


def _distributed(own: torch.Tensor, whole: torch.Tensor, mesh: DeviceMesh, placements: list[Any]) -> DTensor:
    return DTensor.from_local(
        own, mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride()
    ).requires_grad_(whole.requires_grad)
