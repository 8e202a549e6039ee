"""This project's case classes for the measurements of kept ranks: no-op tests, and a small DTensor test."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from torch.distributed.tensor import DeviceMesh, Replicate, Shard, distribute_tensor

from harness import DTensorTestBase, MultiProcContinuousTest, MultiThreadedTestCase, with_comms
from tools.bench.kinds import DTENSOR_TEST, Kind

ROWS = 8


class PooledNoOp(MultiProcContinuousTest):
    """A no-op test on pooled ranks that keep their process group."""

    @classmethod
    def backend_str(cls) -> str:
        """The backend of every contender."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """The device type of every contender."""
        return "cpu"

    def test_nothing(self) -> None:
        """Does nothing."""


class PooledNoOp2(PooledNoOp):
    """A no-op test on two pooled ranks."""

    world_size = 2


class PooledNoOp4(PooledNoOp):
    """A no-op test on four pooled ranks."""

    world_size = 4


class ThreadedNoOp(MultiThreadedTestCase):
    """A no-op test on ranks that are threads."""

    def setUp(self) -> None:
        """Starts the threads."""
        super().setUp()
        self._spawn_threads()

    def test_nothing(self) -> None:
        """Does nothing."""


class ThreadedNoOp2(ThreadedNoOp):
    """A no-op test on two threads."""

    world_size = 2


class ThreadedNoOp4(ThreadedNoOp):
    """A no-op test on four threads."""

    world_size = 4


class Sharded(DTensorTestBase):
    """A DTensor test for any rank mode: it multiplies sharded matrices, gathers and checks the product."""

    world_size: Any = 4

    @property
    def device_type(self) -> str:
        """The device type of every contender."""
        return "cpu"

    @with_comms
    def test_dtensor(self) -> None:
        """Makes one product and one redistribution of DTensors."""
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
    """The case class for a kind of measurement, a world size and a rank mode."""
    return Sharded if kind is DTENSOR_TEST else _CLASSES[mode, world_size]
