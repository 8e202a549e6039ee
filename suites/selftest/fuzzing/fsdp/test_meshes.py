"""Tests the meshes of steps by hand, and the ways of states to another model, in one rank."""

from __future__ import annotations

import unittest

import torch

from harness.fuzzing.fsdp.meshes import Meshes, Trained, carry_over, meshes_of, shapes_of


def trained(value: float) -> Trained:
    """A layer of which each number is a value, and an optimizer that has made steps of nothing."""
    module = torch.nn.Linear(2, 2)
    for each in module.parameters():
        torch.nn.init.constant_(each, value)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.0, momentum=value)
    for each in module.parameters():
        each.grad = torch.full_like(each, value)
    optimizer.step()
    return module, optimizer


class ShapesTest(unittest.TestCase):
    def test_shapes(self) -> None:
        for shape, expected in (
            ((2,), [(2,), (2,), (2, 1), (2,)]),
            ((3, 1), [(3, 1), (3, 1), (3,), (3, 1)]),
            ((4,), [(4,), (4,), (2, 2), (4,)]),
        ):
            with self.subTest(shape):
                self.assertEqual(shapes_of(shape, ("full", "resized", "resized")), expected)


class CarriedTest(unittest.TestCase):
    def setUp(self) -> None:
        torch.distributed.init_process_group(
            "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
        )
        self.addCleanup(torch.distributed.destroy_process_group)

    def test_meshes_are_kept(self) -> None:
        kept: Meshes = {}
        made = meshes_of((1,), ("resized", "resized"), kept)
        self.assertEqual([tuple(each.shape) for each in made], [(1,), (1, 1), (1,)])
        self.assertIs(made[0], made[2])
        self.assertIs(meshes_of((1,), (), kept)[0], made[0])

    def test_states(self) -> None:
        """Each way brings the parameters and the optimizer's buffers and settings."""
        for restores in ("full", "sharded", "resized"):
            with self.subTest(restores):
                source, target = trained(0.5), trained(3.0)
                carry_over(source, target, restores)
                torch.testing.assert_close(target[0].state_dict(), source[0].state_dict())
                torch.testing.assert_close(target[1].state_dict(), source[1].state_dict())


if __name__ == "__main__":
    unittest.main()
