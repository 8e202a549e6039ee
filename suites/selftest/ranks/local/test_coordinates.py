"""Tests where all simulated ranks are in a mesh."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import _LocalDeviceMesh
from torch.distributed.tensor import DeviceMesh, init_device_mesh

from harness.ranks.local import rank as local
from harness.ranks.local.coordinates import coordinates_once

RANKS = 12


def _meshes() -> list[DeviceMesh]:
    """Meshes of all ranks in order, in others, of several dimensions, and parts of them."""
    cube = init_device_mesh("cpu", (2, 3, 2), mesh_dim_names=("a", "b", "c"))
    backwards = DeviceMesh("cpu", torch.arange(RANKS).flip(0).reshape(3, 4))
    mixed = DeviceMesh("cpu", [list(range(0, RANKS, 2)), list(range(1, RANKS, 2))])
    return [init_device_mesh("cpu", (RANKS,)), cube, backwards, mixed, cube["b"], cube["a", "c"]]


def _by_rank(coordinates: Any) -> list[dict[int, int]]:
    return [coordinate.node._local_ints for coordinate in coordinates]


class CoordinatesTest(unittest.TestCase):
    """The coordinates of simulated ranks."""

    def setUp(self) -> None:
        local.init_group(RANKS)
        self.addCleanup(dist.destroy_process_group)

    def test_as_torch(self) -> None:
        """They are torch's, whether the mesh was made inside of the simulation or before it."""
        of_torch: Callable[[Any], Any] = _LocalDeviceMesh.get_coordinate
        before = _meshes()
        with local.simulation(RANKS):
            ours: Callable[[Any], Any] = _LocalDeviceMesh.get_coordinate
            for mesh in (*before, *_meshes()):
                with self.subTest(mesh=str(mesh)):
                    self.assertEqual(_by_rank(ours(mesh)), _by_rank(of_torch(mesh)))
                    self.assertEqual(
                        _by_rank([mesh.get_local_rank(0)]), _by_rank(mesh.get_coordinate() or ())[:1]
                    )
        self.assertIs(_LocalDeviceMesh.get_coordinate, of_torch)

    def test_one_look(self) -> None:
        """A mesh is looked at once, however many ranks there are, with ordinary tensors."""
        get_coordinate = coordinates_once()
        with local.simulation(RANKS):
            mesh = init_device_mesh("cpu", (RANKS,))
            layout = mesh._layout
            looked = mock.Mock(wraps=layout.remap_to_tensor)
            with mock.patch.object(type(layout), "remap_to_tensor", looked):
                first = get_coordinate(mesh)
                self.assertIs(get_coordinate(mesh), first)
        looked.assert_called_once()
        self.assertIs(type(looked.call_args.args[0]), torch.Tensor)

    def test_no_mesh_stands_for_another(self) -> None:
        """A mesh that is made when another one is gone has its own coordinates, whatever its ``id`` is."""
        get_coordinate = coordinates_once()
        with local.simulation(RANKS):
            meshes = [init_device_mesh("cpu", shape) for shape in ((3, 4), (4, 3))]
            for number in range(20):
                mesh = meshes[number % 2]
                passing = SimpleNamespace(ndim=2, _rank_map=mesh._rank_map, _layout=mesh._layout)
                self.assertEqual(_by_rank(get_coordinate(passing)), _by_rank(mesh.get_coordinate() or ()))
                del passing

    def test_rank_outside(self) -> None:
        """A simulated rank that is not in the mesh is an error, as torch has it."""
        with local.simulation(RANKS):
            mesh = DeviceMesh("cpu", list(range(RANKS // 2)))
            with self.assertRaisesRegex(AssertionError, "not all of the 12 simulated ranks"):
                mesh.get_coordinate()


if __name__ == "__main__":
    unittest.main()
