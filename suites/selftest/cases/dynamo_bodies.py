"""Compiler tests that are run by other tests, and the model that they compile."""

from __future__ import annotations

import weakref
from typing import Any

import torch
import torch.distributed as dist

from harness import MultiProcessTestCase
from harness.cases.dynamo import (
    DynamoDistributedMultiProcTestCase,
    DynamoDistributedSingleProcTestCase,
    _dynamo_dist_per_rank_init,
)

# A layer of this width is just over DDP's first bucket of 1 MiB; with other buckets of that size, each layer
# makes one bucket.
WIDTH = 512
BUCKET_MB = 1


class CountedGraphs:
    """A compiler backend that runs graphs unchanged and keeps them."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs.append(graph)
        return graph.forward


class Layers(torch.nn.Sequential):  # type: ignore[misc]  # torch is not followed
    """A module class of our own: the compiler does not trace into a model made only of torch's modules."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Applies each layer and a sine."""
        for layer in self:
            x = layer(x).sin()
        return x


def two_layers(device: str) -> Layers:
    """Returns a model of two layers, the same on every rank with the same seed."""
    model = Layers(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH))
    model.to(device)
    return model


def mean_gradient(model: Layers, ranks: int) -> torch.Tensor:
    """Computes in one process the first weight's mean gradient over ranks with inputs of 1, 2, ..."""
    weight = model[0].weight
    assert isinstance(weight, torch.Tensor)
    inputs = [torch.full((2, WIDTH), float(rank + 1), device=weight.device) for rank in range(ranks)]
    losses = [model(x).sum() for x in inputs]
    gradients = [torch.autograd.grad(loss, weight)[0] for loss in losses]
    return torch.stack(gradients).mean(0)


class SetUpClassFails(DynamoDistributedSingleProcTestCase):
    """A case whose ``setUpClass`` fails after the group is made."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        raise LookupError("no such model")

    def test_anything(self) -> None:
        """Never runs."""


class ForgetsItsBase(DynamoDistributedSingleProcTestCase):
    """A case whose ``tearDownClass`` forgets its base, which must not cost the next class its group."""

    @classmethod
    def tearDownClass(cls) -> None:
        """Does nothing."""

    def test_anything(self) -> None:
        """Checks that there is a group."""
        self.assertTrue(dist.is_initialized())


class PlainRanks(MultiProcessTestCase):
    """Tests on rank processes."""

    world_size = 2

    def test_sum(self) -> None:
        """Two ones sum up to two."""
        store = dist.FileStore(self.file_name, 2)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=2)
        total = torch.ones(1)
        dist.all_reduce(total)
        self.assertEqual(total.item(), 2)


class RanksBeside(DynamoDistributedSingleProcTestCase):
    """A case that starts ranks while this process has a group."""

    def test_ranks(self) -> None:
        """The ranks pass, and the group of this process stays."""
        import unittest

        result = unittest.TestResult()
        PlainRanks("test_sum").run(result)
        self.assertTrue(result.wasSuccessful(), result)
        self.assertTrue(dist.is_initialized())


class OneRankRaises(DynamoDistributedMultiProcTestCase):
    """A case on two ranks of which rank 1 fails."""

    world_size = 2

    def test_it(self) -> None:
        """Rank 1 raises while rank 0 waits for it."""
        with _dynamo_dist_per_rank_init(self.rank, self.world_size):
            if self.rank == 1:
                raise ValueError("rank 1's own error")
            dist.all_reduce(torch.ones(1, device=self.device_type))


class KeepsSight(DynamoDistributedMultiProcTestCase):
    """A case whose test keeps a weak reference to its group."""

    group: weakref.ref[Any] | None = None

    @classmethod
    def exists(cls) -> bool:
        """Returns whether the test's group still exists."""
        return cls.group is not None and cls.group() is not None

    def test_group(self) -> None:
        """Makes a group without peers."""
        with _dynamo_dist_per_rank_init(0, 2, fake_pg=True):
            type(self).group = weakref.ref(dist.group.WORLD)
