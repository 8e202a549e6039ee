"""Losses of DTensors with weights, ignored classes and each reduction: as whole, and cut by classes.

``loss_parallel`` computes the cross entropy of scores that are cut by classes without gathering them. Each is
compared with the same loss in one process, forward and backward.
"""

from __future__ import annotations

import itertools
import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import numpy as np
import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn import functional as F

from harness import load_tests, run_tests, with_comms  # noqa: F401  (unittest calls load_tests)
from harness.ranks.local import rank
from harness.releases import torch_at_least
from suites.spmd.dtensor_base import RANKS, ROUNDED, Bodies, Communication, in_rank_modes, thinned
from suites.spmd.sharding_model import small_numbers

#: Seven classes over four ranks: the last rank has one. Parallel losses refuse ranks that have none.
SCORES = small_numbers(2, (8, 7)) / 4
TARGETS = np.array([0, 5, 3, 1, 6, 1, 4, 0])
WEIGHTS = np.array([1.0, 2.0, 0.5, 3.0, 0.25, 1.5, 4.0], dtype=np.float32)
REDUCTIONS = ("mean", "sum", "none")
IGNORED = (-100, 1, 5)


class LossBodies(Bodies):
    """How a loss is compared with that in one process."""

    def check(self, loss, scores, placements, targets, *, msg, communicated=None):
        """Check ``loss(scores, targets)`` and the gradient of the scores, which lie as ``placements`` say."""
        with rank.outside():
            whole = self.tensor(scores).requires_grad_()
            expected = loss(whole, self.tensor(targets))
            weights = self.tensor(small_numbers(3, expected.shape))
            (expected * weights).sum().backward()
        mesh = self.mesh(RANKS)
        laid = self.spread(scores, mesh, *placements).requires_grad_()
        with Communication() as communication:
            found = loss(laid, self.spread(targets, mesh, Replicate()))
        if communicated is not None:
            self.assertEqual(communication.counts, communicated, msg)
        joined = found.full_tensor()
        self.assertEqual(joined, expected, msg, **ROUNDED)
        (joined * weights).sum().backward()
        self.assertEqual(laid.grad.full_tensor(), whole.grad, f"gradient, {msg}", **ROUNDED)


class ParallelLosses(LossBodies):
    """Scores that are cut by classes."""

    def losses(self, of):
        """For each reduction and ignored class the loss, and what it is called."""
        for reduction, ignored in of:
            rules = {"reduction": reduction, "ignore_index": ignored}
            yield (lambda x, y, rules=rules: F.cross_entropy(x, y, **rules)), str(rules)

    @with_comms
    def test_reductions_and_ignored_classes(self):
        with loss_parallel():
            for loss, msg in self.losses(itertools.product(REDUCTIONS, IGNORED)):
                # The highest score of a row, the sum of the exponentials, the scores of the right classes.
                self.check(loss, SCORES, [Shard(1)], TARGETS, msg=msg, communicated={"all_reduce": 3})

    @with_comms
    def test_weights(self):
        """A weight for each class, which the mean is divided by too."""
        mesh = self.mesh(RANKS)
        for reduction, ignored in self.some(itertools.product(REDUCTIONS, IGNORED)):
            with rank.outside():
                whole = self.tensor(SCORES).requires_grad_()
                rules = {"reduction": reduction, "ignore_index": ignored}
                expected = F.cross_entropy(whole, self.tensor(TARGETS), self.tensor(WEIGHTS), **rules)
                expected.sum().backward()
            laid = self.spread(SCORES, mesh, Shard(1)).requires_grad_()
            weights = self.spread(WEIGHTS, mesh, Replicate())
            targets = self.spread(TARGETS, mesh, Replicate())
            with loss_parallel():
                found = F.cross_entropy(laid, targets, weights, **rules)
                self.assertEqual(found.full_tensor(), expected, str(rules), **ROUNDED)
                found.full_tensor().sum().backward()
            self.assertEqual(laid.grad.full_tensor(), whole.grad, f"gradient, {rules}", **ROUNDED)

    @with_comms
    def test_low_precision(self):
        """Scores of bfloat16 are summed up in float32, and each rank's results are of bfloat16 again."""
        with rank.outside():
            expected = F.log_softmax(self.tensor(SCORES).bfloat16(), 1)
        laid = self.spread(SCORES, self.mesh(RANKS), Shard(1)).bfloat16()
        with loss_parallel():
            found = F.log_softmax(laid, 1)
        self.assertEqual(found.to_local().dtype, torch.bfloat16)
        self.assertEqual(found.full_tensor(), expected, rtol=2.0**-7, atol=0)

    @with_comms
    def test_scores_of_places(self):
        """Classes are the second of three dimensions."""
        scores = small_numbers(4, (3, 7, 5)) / 4
        targets = np.arange(15).reshape(3, 5) % 7
        with loss_parallel():
            for loss, msg in self.losses(zip(REDUCTIONS, IGNORED, strict=True)):
                self.check(loss, scores, [Shard(1)], targets, msg=msg)

    @with_comms
    def test_weights_of_places(self):
        """The same where classes are the second of three dimensions, and where they are the only one."""
        scores = small_numbers(4, (3, 7, 5)) / 4
        places = np.arange(15).reshape(3, 5) % 7
        for rules in ({"reduction": "mean", "ignore_index": 5}, {"reduction": "none"}):
            self.check_weighted(scores, [Shard(1)], places, [Replicate()], (RANKS,), **rules)
        for wanted, rules in ((6, {"reduction": "sum", "ignore_index": 6}), (2, {"reduction": "mean"})):
            row = scores[0, :, 0]
            self.check_weighted(row, [Shard(0)], np.array(wanted), [Replicate()], (RANKS,), **rules)

    @unittest.skipUnless(torch_at_least("2.13"), "before torch 2.13 the mesh has one dimension")
    @with_comms
    def test_rows_and_classes(self):
        """Rows over one dimension of the mesh, classes over the other, in either order."""
        shape = (2, 2)
        for placements, of_targets, rules in (
            ([Shard(0), Shard(1)], [Shard(0), Replicate()], {"reduction": "sum", "ignore_index": 1}),
            ([Shard(0), Shard(1)], [Shard(0), Replicate()], {"reduction": "none"}),
            ([Shard(1), Shard(0)], [Replicate(), Shard(0)], {"reduction": "none", "ignore_index": 1}),
            ([Shard(1), Replicate()], [Replicate(), Replicate()], {"reduction": "sum"}),
        ):
            self.check_weighted(SCORES, placements, TARGETS, of_targets, shape, **rules)
        mesh = self.mesh(*shape)
        scores, targets = self.spread(SCORES, mesh, Shard(0), Shard(1)), self.tensor(TARGETS)
        laid = self.spread(TARGETS, mesh, Shard(0), Replicate())
        with loss_parallel():
            with self.assertRaisesRegex(NotImplementedError, "one-dimensional"):
                F.cross_entropy(scores, laid)
            with self.assertRaisesRegex(ValueError, "requires a DTensor"):
                F.cross_entropy(scores, targets, reduction="sum")
            with self.assertRaisesRegex(RuntimeError, "Expected"):
                F.cross_entropy(scores, self.spread(TARGETS, mesh, Replicate(), Replicate()), reduction="sum")
            with self.assertRaisesRegex(ValueError, "exactly one mesh dim"):
                F.cross_entropy(self.spread(SCORES, mesh, Shard(1), Shard(1)), targets, reduction="sum")
            with self.assertRaisesRegex(ValueError, "exactly one mesh dim"):
                F.cross_entropy(self.spread(SCORES, mesh, Shard(0), Replicate()), laid, reduction="sum")
            summands = DTensor.from_local(self.tensor(SCORES[:, :4]), mesh, [Partial(), Shard(1)])
            with self.assertRaisesRegex(ValueError, "Shard or Replicate"):
                F.cross_entropy(summands, targets, reduction="sum")

    @with_comms
    def test_plain_targets_and_weights(self):
        """They are taken to be the same on each rank."""
        mesh = self.mesh(RANKS)
        with rank.outside():
            plain = self.tensor(TARGETS), self.tensor(WEIGHTS)
            whole = self.tensor(SCORES).requires_grad_()
            expected = F.cross_entropy(whole, *plain, ignore_index=5)
            expected.backward()
        laid = self.spread(SCORES, mesh, Shard(1)).requires_grad_()
        with loss_parallel():
            found = F.cross_entropy(laid, *plain, ignore_index=5)
            found.backward()
        self.assertEqual(found.full_tensor(), expected, **ROUNDED)
        self.check_lies(laid.grad, whole.grad.cpu().numpy(), [Shard(1)], "gradient")

    def check_weighted(self, scores, placements, targets, of_targets, shape, **rules):
        """Check the loss, with and without weights, and the gradient of the scores."""
        mesh, msg = self.mesh(*shape), f"{placements} {rules}"
        for weighted in (True, False):
            with rank.outside():
                whole = self.tensor(scores).requires_grad_()
                weights = self.tensor(WEIGHTS) if weighted else None
                expected = F.cross_entropy(whole, self.tensor(targets), weights, **rules)
                factors = self.tensor(small_numbers(3, expected.shape))
                (expected * factors).sum().backward()
            laid = self.spread(scores, mesh, *placements).requires_grad_()
            weights = self.spread(WEIGHTS, mesh, *[Replicate()] * mesh.ndim) if weighted else None
            with loss_parallel():
                found = F.cross_entropy(laid, self.spread(targets, mesh, *of_targets), weights, **rules)
                joined = found.full_tensor()
                self.assertEqual(joined, expected, msg, **ROUNDED)
                (joined * factors).sum().backward()
            self.assertEqual(laid.grad.placements, tuple(placements), msg)
            self.assertEqual(laid.grad.full_tensor(), whole.grad, f"gradient, {msg}", **ROUNDED)

    @with_comms
    def test_the_region(self):
        """Outside of it classes are gathered as for any operator: before and after, any number of times."""

        def gathers():
            laid = self.spread(SCORES, self.mesh(RANKS), Shard(1))
            with Communication() as communication:
                F.cross_entropy(laid, self.spread(TARGETS, self.mesh(RANKS), Replicate()))
            return "all_reduce" not in communication.counts

        self.assertTrue(gathers())
        for _ in range(2):
            with loss_parallel():
                self.assertFalse(gathers())
            self.assertTrue(gathers())


class Losses(LossBodies):
    """Losses outside of ``loss_parallel``, on even shards."""

    @with_comms
    def test_of_two_tensors(self):
        scores, wanted = small_numbers(1, (8, 4)) / 8, small_numbers(2, (8, 4)) / 8
        combinations = itertools.product(
            (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss),
            ("sum", "none"),  # the gradient of a mean is wrong on shards (2.13)
            (Shard(0), Shard(1), Replicate()),
        )
        for loss, reduction, placement in thinned(list(combinations)):
            msg = f"{loss.__name__} {reduction} {placement}"

            def of(x, y, loss=loss, reduction=reduction):
                return loss(x, y, reduction=reduction)

            self.check(of, scores, [placement], wanted, msg=msg)

    @with_comms
    def test_of_classes_with_weights(self):
        mesh = self.mesh(RANKS)
        combinations = itertools.product(("sum", "none"), IGNORED, (Shard(0), Shard(1), Replicate()))
        for reduction, ignored, placement in thinned(list(combinations)):
            rules = {"reduction": reduction, "ignore_index": ignored}
            with rank.outside():
                weights = self.tensor(WEIGHTS)
            spread = self.spread(WEIGHTS, mesh, Replicate())

            def of(x, y, rules=rules, weights=weights, spread=spread):
                return F.cross_entropy(x, y, spread if hasattr(x, "placements") else weights, **rules)

            self.check(of, SCORES, [placement], TARGETS, msg=f"{rules} {placement}")


in_rank_modes(globals(), Losses, modes=("OnLocalTensors",))
# The region in which losses are parallel belongs to the process: it is not for ranks that are threads.
in_rank_modes(globals(), ParallelLosses, modes=("OnPooledRanks",))

if __name__ == "__main__":
    run_tests()
