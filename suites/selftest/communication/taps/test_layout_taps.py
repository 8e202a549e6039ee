"""Tests that the placements which a rank gives its distributed tensors are recorded."""

from __future__ import annotations

import unittest
from unittest import mock

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from harness import DTensorTestBase, with_comms
from harness.communication.taps import taps
from harness.communication.taps.layout_taps import part_text


class PlacementsTest(DTensorTestBase):
    """DTensor's functions on two ranks."""

    world_size = 2

    @with_comms
    def test_placements(self) -> None:
        """Distributing and redistributing are recorded with members of the mesh and placements."""
        mesh = self.build_device_mesh()
        found = taps.prepare()
        assert found is not None and found.recorder is not None
        with mock.patch.object(found.recorder, "lays_out", wraps=found.recorder.lays_out) as lays_out:
            made = distribute_tensor(torch.ones(4, device=self.device_type), mesh, [Shard(0)])
            made.redistribute(mesh, [Replicate()])
        (first, placed), (second, placements) = (
            ((c.args[0], c.args[1]), c.args[2]) for c in lays_out.call_args_list
        )
        self.assertEqual((first, second), (("distribute_tensor", (0, 1)), ("redistribute", (0, 1))))
        self.assertRegex(placed, r"^\(4,\) by S")
        self.assertRegex(placements, r"^\(R")

    @with_comms
    def test_shape(self) -> None:
        """Behind the first dimension of a mesh a tensor is a part, of which ranks may have unequal ones."""
        mesh = init_device_mesh(self.device_type, (2, 1))
        found = taps.prepare()
        assert found is not None and found.recorder is not None
        with mock.patch.object(found.recorder, "lays_out", wraps=found.recorder.lays_out) as lays_out:
            distribute_tensor(torch.ones(5, 3, device=self.device_type), mesh, [Shard(0), Shard(1)])
        (first, second) = (c.args[2] for c in lays_out.call_args_list)
        self.assertRegex(first, r"^\(5, 3\) by S")
        self.assertRegex(second, r"^by S")

    @with_comms
    def test_other_mesh(self) -> None:
        """A rank outside of the mesh is recorded with neither; its calls need not be those of the members."""
        mesh = DeviceMesh(self.device_type, [1])
        found = taps.prepare()
        assert found is not None and found.recorder is not None
        with mock.patch.object(found.recorder, "lays_out", wraps=found.recorder.lays_out) as lays_out:
            made = distribute_tensor(torch.ones(4, device=self.device_type), mesh, [Shard(0)])
            made.redistribute(mesh, [Replicate()])
        self.assertEqual(lays_out.call_count, 2 * self.rank)


class CompiledTest(DTensorTestBase):
    """Functions that are traced by tensors that stand for others."""

    world_size = 2

    @with_comms
    def test_redistribute(self) -> None:
        """The mesh is not asked for its tensor while dynamo traces, which fails under fake tensors."""
        x = distribute_tensor(torch.arange(8.0).reshape(2, 4), self.build_device_mesh(), [Shard(0)])

        def function(t: DTensor) -> DTensor:
            return t.redistribute(placements=[Shard(-1)], async_op=True)

        found = torch.compile(function, backend="aot_eager", fullgraph=True)(x)
        self.assertEqual(found.full_tensor(), x.full_tensor())


class PartTextTest(unittest.TestCase):
    """The shape of a part as ranks compare it."""

    def test_split_dimensions(self) -> None:
        """Dimensions that are split, counted from either end, may differ; the others may not."""
        table = [
            ((2, 3), [Replicate()], "(2, 3)"),
            ((2, 3), [Shard(0)], "(*, 3)"),
            ((2, 3), [Shard(-1), Replicate()], "(2, *)"),
            ((2, 3), [Shard(0), Shard(1)], "(*, *)"),
            ((2,), [Shard(0)], "(*,)"),
            ((), [Replicate()], "()"),
        ]
        for shape, placements, expected in table:
            with self.subTest(shape=shape, placements=placements):
                self.assertEqual(part_text(shape, placements), expected)


if __name__ == "__main__":
    unittest.main()
