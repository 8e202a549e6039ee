"""This project's case classes for kept ranks: a no-op, and a small DTensor test for every rank mode."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from torch.distributed.tensor import DeviceMesh, Replicate, Shard, distribute_tensor

from harness import DTensorTestBase, MultiProcContinuousTest, MultiThreadedTestCase, with_comms
from tools.bench.kinds import DTENSOR_TEST, Kind

ROWS = 8


class PooledNoOp(MultiProcContinuousTest):
    """A no-op on pooled ranks that keep their group."""

    @classmethod
    def backend_str(cls) -> str:
        """As every contender's."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """As every contender's."""
        return "cpu"

    def test_nothing(self) -> None:
        """Nothing."""


class PooledNoOp2(PooledNoOp):
    """On two ranks."""

    world_size = 2


class PooledNoOp4(PooledNoOp):
    """On four ranks."""

    world_size = 4


class ThreadedNoOp(MultiThreadedTestCase):
    """A no-op on threads."""

    def setUp(self) -> None:
        """Starts the threads."""
        super().setUp()
        self._spawn_threads()

    def test_nothing(self) -> None:
        """Nothing."""


class ThreadedNoOp2(ThreadedNoOp):
    """On two ranks."""

    world_size = 2


class ThreadedNoOp4(ThreadedNoOp):
    """On four ranks."""

    world_size = 4


class Sharded(DTensorTestBase):
    """A product of sharded matrices, gathered and checked: the same body in all rank modes."""

    world_size: Any = 4

    @property
    def device_type(self) -> str:
        """As every contender's."""
        return "cpu"

    @with_comms
    def test_dtensor(self) -> None:
        """One redistribution and one product."""
        mesh = DeviceMesh(self.device_type, list(range(self.world_size)))
        left = torch.arange(float(ROWS * ROWS)).reshape(ROWS, ROWS)
        product = distribute_tensor(left, mesh, [Shard(0)]) @ distribute_tensor(left, mesh, [Replicate()])
        self.assertEqual(product.redistribute(mesh, [Replicate()]).to_local(), left @ left)


_CLASSES: dict[tuple[str, int], type[unittest.TestCase]] = {
    ("pooled", 2): PooledNoOp2,
    ("pooled", 4): PooledNoOp4,
    ("threads", 2): ThreadedNoOp2,
    ("threads", 4): ThreadedNoOp4,
}


def ours(kind: Kind, world_size: int, mode: str) -> type[unittest.TestCase]:
    """The class for a kind, on so many ranks."""
    return Sharded if kind is DTENSOR_TEST else _CLASSES[mode, world_size]
