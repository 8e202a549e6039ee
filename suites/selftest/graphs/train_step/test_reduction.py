"""Tests which groups gradients can be summed over, and that each gradient is summed once."""

from __future__ import annotations

import unittest

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from harness import DTensorContinuousTestBase
from harness.errors import UsageError
from harness.graphs.train_step import compile
from harness.graphs.train_step.reduction import name_of_group, reducing
from suites.selftest.graphs.train_step.step_test_case import StepTestCase, sgd, sum_step


class GroupTest(unittest.TestCase):
    """A step needs a process group to sum gradients over."""

    def test_no_process_group(self) -> None:
        module = nn.Linear(3, 2)
        with self.assertRaisesRegex(UsageError, "call init_process_group first"):
            compile()(sum_step)(module, sgd(module), torch.ones(1, 3))


class MeshTest(StepTestCase):
    """``group`` may be a mesh, and has to contain this rank."""

    def test_meshes(self) -> None:
        mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("one", "other"))
        for group in ((mesh, 0), (mesh, "other"), mesh["one"], mesh.get_group(1), None):
            module, optimizer, x = self.linear()
            compile(group=group)(sum_step)(module, optimizer, x)
        with self.assertRaisesRegex(UsageError, "a mesh of 2 dimensions: give"):
            compile(group=mesh)
        for dimension in (2, -1, "third", None):
            with self.assertRaisesRegex(UsageError, f"names dimension {dimension!r} of a mesh that has 2"):
                compile(group=(mesh, dimension))

    def test_group_of_others(self) -> None:
        module, optimizer, x = self.linear()
        step = compile(group=dist.GroupMember.NON_GROUP_MEMBER)(sum_step)
        with self.assertRaisesRegex(UsageError, "this rank is not in the group"):
            step(module, optimizer, x)

    def test_sparse_gradient(self) -> None:
        module = nn.Embedding(5, 2, sparse=True)
        with self.assertRaisesRegex(UsageError, "a gradient is sparse"):
            compile()(sum_step)(module, sgd(module), torch.tensor([1, 3]))


class ReducingTest(DTensorContinuousTestBase):
    """The context ``reducing``, on two ranks."""

    world_size = 2

    def test_sums_whole_gradients(self) -> None:
        """A parameter's gradient is the sum over its uses and over the ranks."""
        weight = torch.ones(2, requires_grad=True)
        with reducing([weight], name_of_group(None)):
            (weight * (self.rank + 1) + weight * 10).sum().backward()
        self.assertEqual(weight.grad, torch.full((2,), 23.0))

    def test_ends_with_the_context(self) -> None:
        """After the context, gradients are local again."""
        weight = torch.ones(2, requires_grad=True)
        with reducing([weight], name_of_group(None)):
            pass
        (weight * (self.rank + 1)).sum().backward()
        self.assertEqual(weight.grad, torch.full((2,), self.rank + 1.0))

    def test_frozen_parameters(self) -> None:
        """A parameter that requires no gradient is left alone."""
        weight, frozen = torch.ones(2, requires_grad=True), torch.ones(2)
        with reducing([weight, frozen], name_of_group(None)):
            (weight * frozen).sum().backward()
        self.assertEqual(weight.grad, torch.full((2,), 2.0))
        self.assertIsNone(frozen.grad)


if __name__ == "__main__":
    unittest.main()
