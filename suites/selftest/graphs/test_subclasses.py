"""Wrapper subclasses are taken apart, and plain tensors sharded like a given DTensor."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.testing._internal.two_tensor import TwoTensor

from harness import TestCase
from harness.graphs.subclasses import parts_of, sharded_as
from harness.ranks.local import rank


class PartsTest(TestCase):
    """The function ``parts_of``, on tensor subclasses."""

    def test_tensors(self) -> None:
        """The tensors of a wrapper are found under the names that it flattens to."""
        one, other = torch.ones(2), torch.zeros(2)
        parts = parts_of(TwoTensor(one, other))
        self.assertEqual(list(parts.tensors), ["a", "b"])
        self.assertIs(parts.tensors["b"], other)
        self.assertEqual(parts.others, {})

    def test_others(self) -> None:
        """Parts that are not tensors, such as a mesh, are kept apart from the tensors."""
        wrapper = SimpleNamespace(
            data=torch.ones(2), mesh="a mesh", __tensor_flatten__=lambda: (["data", "mesh"], "context")
        )
        parts = parts_of(wrapper)
        self.assertEqual((list(parts.tensors), parts.others), (["data"], {"mesh": "a mesh"}))
        self.assertEqual(parts.context, "context")


class ShardedAsTest(TestCase):
    """``sharded_as`` on rank 0 of a group of two that has no peers."""

    def setUp(self) -> None:
        """Make the process group."""
        super().setUp()
        rank.init_group(2)
        self.addCleanup(dist.destroy_process_group)

    def test_placements(self) -> None:
        """The plain tensor gets the DTensor's placements, with Replicate for Partial."""
        mesh = init_device_mesh("cpu", (2,))
        whole = torch.arange(8.0).reshape(4, 2)
        for placement, expected, here in (
            (Shard(0), Shard(0), whole[:2]),
            (Shard(1), Shard(1), whole[:, :1]),
            (Replicate(), Replicate(), whole),
            (Partial(), Replicate(), whole),
        ):
            with self.subTest(placement):
                like: Any = DTensor.from_local(torch.ones_like(here), mesh, [placement], run_check=False)
                found: Any = sharded_as(like, whole)
                self.assertEqual(found.placements, (expected,))
                self.assertEqual(found.shape, (4, 2))
                self.assertEqual(found.to_local(), here)

    def test_other_tensors(self) -> None:
        """For a tensor that is not a DTensor the result is None."""
        self.assertIsNone(sharded_as(torch.ones(2), torch.ones(2)))
        self.assertIsNone(sharded_as(TwoTensor(torch.ones(2), torch.ones(2)), torch.ones(2)))


if __name__ == "__main__":
    unittest.main()
