"""Tensor parallelism: layers cut over ranks compute what the whole layers do in one process, forward and
backward.

Outputs, the gradients of inputs and of parameters, and parameters after training are compared with an
unsharded copy; the collectives that a step takes are pinned.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional as F

from harness import load_tests, run_tests, slow_test, with_comms  # noqa: F401  (unittest calls load_tests)
from harness.ranks.local import rank
from suites.spmd.dtensor_base import RANKS, ROUNDED, Bodies, Communication, in_rank_modes
from suites.spmd.parallel_models import WIDTH, WORDS, Attention, Mlp, NormedMlp, Speller

#: The layers of an MLP: cut by columns, then by rows, with one sum at the end.
MLP = {"up": ColwiseParallel(), "down": RowwiseParallel()}
ATTENTION = {
    "query": ColwiseParallel(),
    "key": ColwiseParallel(),
    "value": ColwiseParallel(),
    "out": RowwiseParallel(),
}
#: An embedding cut by words and an MLP.
WORDS_MLP = {
    "words": RowwiseParallel(input_layouts=Replicate()),
    "mlp.up": ColwiseParallel(),
    "mlp.down": RowwiseParallel(),
}


class TensorParallelBodies(Bodies):
    """How a parallel model is compared with a whole one."""

    def pair(self, model_class, plan):
        """Return a model, the same on each rank, and a parallel one, made of the same model on rank 0.

        What the parallel one is made of on other ranks must not count.
        """
        with rank.outside():
            torch.manual_seed(7)
            plain = model_class().to(self.device_type)
        torch.manual_seed(7 + self.rank)
        return plain, parallelize_module(model_class().to(self.device_type), self.mesh(RANKS), plan)

    def rows(self, *shape):
        """Draw normally distributed numbers, the same on each rank."""
        with rank.outside():
            return torch.randn(*shape, generator=torch.Generator().manual_seed(11)).to(self.device_type)

    def words(self):
        """Draw six words, the same on each rank."""
        drawn = torch.randint(WORDS, (6,), generator=torch.Generator().manual_seed(13))
        return drawn.to(self.device_type)

    def check_step(self, plain, parallel, rows, *, forward, backward):
        """Check a forward and a backward pass; ``forward`` and ``backward`` are the collectives they take."""
        weights = self.rows(*rows.shape)
        with rank.outside():
            given = rows.clone().requires_grad_()
            expected = plain(given)
            (expected * weights).sum().backward()
        own = rows.clone().requires_grad_()
        with Communication() as communication:
            found = parallel(own)
        self.assertEqual(communication.counts, forward)
        self.assertEqual(found, expected, **ROUNDED)
        with Communication() as communication:
            (found * weights).sum().backward()
        self.assertEqual(communication.counts, backward)
        self.assertEqual(own.grad, given.grad, **ROUNDED)
        self.check_gradients(plain, parallel)

    def check_gradients(self, plain, parallel):
        """Check that both have the same parameters with the same gradients."""
        theirs = dict(parallel.named_parameters())
        self.assertEqual(list(theirs), [name for name, _ in plain.named_parameters()])
        for name, parameter in plain.named_parameters():
            self.assertEqual(theirs[name].grad.full_tensor(), parameter.grad, name, **ROUNDED)


class TensorParallel(TensorParallelBodies):
    """Models over four ranks."""

    @with_comms
    def test_mlp(self):
        plain, parallel = self.pair(Mlp, MLP)
        self.assertEqual(parallel.up.weight.placements, (Shard(0),))
        self.assertEqual(parallel.up.bias.placements, (Shard(0),))
        self.assertEqual(parallel.down.weight.placements, (Shard(1),))
        self.assertEqual(parallel.down.bias.placements, (Replicate(),))
        self.check_step(
            plain, parallel, self.rows(5, WIDTH), forward={"all_reduce": 1}, backward={"all_reduce": 1}
        )

    @with_comms
    def test_mlp_of_sharded_rows(self):
        # Between the layers each rank has all rows, before and after them some: no sum is kept whole.
        layers = {
            "up": ColwiseParallel(input_layouts=Shard(0)),
            "down": RowwiseParallel(output_layouts=Shard(0), use_local_output=False),
        }
        plain, parallel = self.pair(Mlp, layers)
        rows, weights = self.rows(8, WIDTH), self.rows(8, WIDTH)
        with rank.outside():
            given = rows.clone().requires_grad_()
            expected = plain(given)
            (expected * weights).sum().backward()
        mesh = self.mesh(RANKS)
        own = self.spread(rows.cpu().numpy(), mesh, Shard(0)).requires_grad_()
        with Communication() as communication:
            found = parallel(own)
        self.assertEqual(communication.counts, {"all_gather_into_tensor": 1, "reduce_scatter_tensor": 1})
        self.assertEqual(found.placements, (Shard(0),))
        self.assertEqual(found.full_tensor(), expected, **ROUNDED)
        loss = (found * self.spread(weights.cpu().numpy(), mesh, Shard(0))).sum()
        with Communication() as communication:
            loss.backward()
        self.assertEqual(communication.counts, {"all_gather_into_tensor": 1, "reduce_scatter_tensor": 1})
        self.assertEqual(own.grad.placements, (Shard(0),))
        self.assertEqual(own.grad.full_tensor(), given.grad, **ROUNDED)
        self.check_gradients(plain, parallel)

    @with_comms
    def test_sequence_parallel(self):
        # The norm works on each rank's part of the length; the gradients of its weights are sums over ranks.
        layers = {
            "norm": SequenceParallel(),
            "mlp.up": ColwiseParallel(input_layouts=Shard(1)),
            "mlp.down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        }
        plain, parallel = self.pair(NormedMlp, layers)
        rows, weights = self.rows(2, 8, WIDTH), self.rows(2, 8, WIDTH)
        with rank.outside():
            given = rows.clone().requires_grad_()
            expected = plain(given)
            (expected * weights).sum().backward()
        mesh = self.mesh(RANKS)
        own = self.spread(rows.cpu().numpy(), mesh, Shard(1)).requires_grad_()
        with Communication() as communication:
            found = parallel(own)
        self.assertEqual(communication.counts, {"all_gather_into_tensor": 1, "reduce_scatter_tensor": 1})
        self.assertEqual(found.full_tensor(), expected, **ROUNDED)
        loss = (found * self.spread(weights.cpu().numpy(), mesh, Shard(1))).sum()
        with Communication() as communication:
            loss.backward()
        self.assertEqual(communication.counts, {"all_gather_into_tensor": 1, "reduce_scatter_tensor": 1})
        self.assertEqual(own.grad.placements, (Shard(1),))
        self.assertEqual(own.grad.full_tensor(), given.grad, **ROUNDED)
        self.check_gradients(plain, parallel)

    @with_comms
    def test_attention(self):
        plain, parallel = self.pair(Attention, ATTENTION)
        # Each of the three projections sums its own share of the gradient of the input.
        self.check_step(
            plain, parallel, self.rows(2, 5, WIDTH), forward={"all_reduce": 1}, backward={"all_reduce": 3}
        )

    @with_comms
    def test_words(self):
        # The embedding is cut by words: each rank looks up its own, and the sum has all.
        layers = {**WORDS_MLP, "scores": ColwiseParallel(output_layouts=Replicate())}
        plain, parallel = self.pair(Speller, layers)
        with rank.outside():
            words = self.words()
            expected = F.cross_entropy(plain(words), words.roll(-1))
            expected.backward()
        with Communication() as communication:
            scores = parallel(words)
        self.assertEqual(communication.counts, {"all_reduce": 2, "all_gather_into_tensor": 1})
        loss = F.cross_entropy(scores, words.roll(-1))
        self.assertEqual(loss, expected, **ROUNDED)
        loss.backward()
        self.check_gradients(plain, parallel)

    @with_comms
    def test_training(self):
        plain, parallel = self.pair(Mlp, MLP)
        with rank.outside():
            optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
            for step in range(3):
                optimizer.zero_grad()
                plain(self.rows(6, WIDTH) + step).square().mean().backward()
                optimizer.step()
        optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1, momentum=0.9)
        for step in range(3):
            optimizer.zero_grad()
            parallel(self.rows(6, WIDTH) + step).square().mean().backward()
            optimizer.step()
        for (name, parameter), theirs in zip(plain.named_parameters(), parallel.parameters(), strict=True):
            self.assertEqual(theirs.full_tensor(), parameter, name, **ROUNDED)

    @with_comms
    def test_rows_and_columns_on_two_dimensions(self):
        # Rows over the first dimension of the mesh, columns over the second. The gradient of a weight is a
        # sum over the rows' ranks.
        mesh, rows = self.mesh(2, 2), self.rows(6, WIDTH)
        with rank.outside():
            torch.manual_seed(7)
            plain = Mlp().to(self.device_type)
            expected = plain(rows)
            expected.square().sum().backward()
        laid = {
            "up.weight": (Replicate(), Shard(0)),
            "up.bias": (Replicate(), Shard(0)),
            "down.weight": (Replicate(), Shard(1)),
            "down.bias": (Replicate(), Replicate()),
        }
        weights = {
            name: self.spread(parameter.detach().cpu().numpy(), mesh, *laid[name]).requires_grad_()
            for name, parameter in plain.named_parameters()
        }
        given = self.spread(rows.cpu().numpy(), mesh, Shard(0), Replicate())
        found = torch.func.functional_call(plain, weights, (given,))
        self.assertEqual(found.full_tensor(), expected, **ROUNDED)
        found.square().sum().backward()
        for name, parameter in plain.named_parameters():
            self.assertEqual(weights[name].grad.full_tensor(), parameter.grad, name, **ROUNDED)


class LossParallel(TensorParallelBodies):
    """A loss of scores that are cut by classes."""

    @with_comms
    def test_loss_parallel(self):
        layers = {**WORDS_MLP, "scores": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
        plain, parallel = self.pair(Speller, layers)
        with rank.outside():
            words = self.words()
            expected = F.cross_entropy(plain(words), words.roll(-1))
            expected.backward()
        scores = parallel(words)
        self.assertEqual(scores.placements, (Shard(1),))
        with loss_parallel():
            with Communication() as communication:
                loss = F.cross_entropy(scores, words.roll(-1))
            # The highest score of each row, the sum of the exponentials, and the scores of the right classes.
            self.assertEqual(communication.counts, {"all_reduce": 3})
            self.assertEqual(loss.full_tensor(), expected, **ROUNDED)
            loss.backward()
        self.check_gradients(plain, parallel)


in_rank_modes(globals(), TensorParallel)
# Layers ask for no more of threads than operators do (``test_dtensor_ops``).
TensorParallelOnThreadsTest = slow_test(globals()["TensorParallelOnThreadsTest"])
# The region in which losses are parallel belongs to the process: it is not for ranks that are threads.
in_rank_modes(globals(), LossParallel, modes=("OnPooledRanks", "OnLocalTensors"))

if __name__ == "__main__":
    run_tests()
