"""DTensor: what common operators make of the placements of their arguments, and what they compute.

Every combination of placements of every argument is compared with the same operator on whole tensors in one
process, forward and backward, in one of the rank modes. What needs no communication is pinned: the placement
that comes out, and that nothing is communicated on the way there.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
import unittest
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import numpy as np
import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.nn import functional as F

from harness import load_tests, run_tests, with_comms  # noqa: F401  (unittest calls load_tests)
from harness.ranks.local import rank
from harness.releases import torch_at_least
from suites.spmd.dtensor_base import RANKS, ROUNDED, Bodies, Communication, in_rank_modes
from suites.spmd.sharding_model import Pieces, small_numbers

R, P, S = Replicate(), Partial(), Shard
#: Classes that rows are to hit; one rank has a row of class 2, no other has.
SCORES = small_numbers(2, (8, 6))
TARGETS = np.array([0, 5, 3, 1, 2, 1, 4, 0])


class OperatorBodies(Bodies):
    """How an operator is checked."""

    def check(self, operator, shapes, *, stays=None, only_these=False, partial=True, **rules):
        """Check an operator on tensors of some shapes, laid in every way over four ranks, in one mode each.

        ``stays`` are the combinations that need no communication, with the placement of the result.
        ``partial`` is whether an argument may be a partial sum, too; ``only_these`` where torch refuses other
        combinations than ``stays``.
        """
        stays = {} if stays is None else stays
        choices = [[R, *map(S, range(len(shape))), *([P] if partial else [])] for shape in shapes]
        others = () if only_these else (p for p in itertools.product(*choices) if p not in stays)
        for placements in self.some((*stays, *others)):
            laid = [Pieces((RANKS,), shape, (each,)) for shape, each in zip(shapes, placements, strict=True)]
            with self.cell(self._testMethodName.removeprefix("test_"), ", ".join(map(str, placements))):
                result = self.check_one(operator, laid, str(placements), **rules)
                if placements in stays:
                    self.assertEqual(result, ((stays[placements],), {}), f"{placements}")
        self.assertLessEqual({*stays}, {*itertools.product(*choices)})

    def check_one(self, operator, pieces, msg, **rules):
        """Check an operator on tensors laid as given; its placements and collectives.

        Forward, and backward but under ``no_grad``.
        The loss weighs the elements of the result, so that none can take another's place.
        """
        with rank.outside():
            wholes = [self.tensor(each.whole).requires_grad_() for each in pieces]
            expected = operator(*wholes)
            weights = self.tensor(small_numbers(3, expected.shape))
            if expected.requires_grad:
                (expected * weights).sum().backward()
        laid = [self.laid(each).requires_grad_() for each in pieces]
        with Communication() as communication:
            found = operator(*laid)
        self.assertIsInstance(found, DTensor, msg)
        joined = found.full_tensor()
        self.assertEqual(joined, expected, msg, **rules)
        if not expected.requires_grad:  # without gradients there is nothing more
            return found.placements, dict(communication.counts)
        (joined * weights).sum().backward()
        for tensor, whole in zip(laid, wholes, strict=True):
            self.assertEqual(tensor.grad.full_tensor(), whole.grad, f"gradient, {msg}", **rules)
        return found.placements, dict(communication.counts)


class Operators(OperatorBodies):
    """Operators on floating point tensors."""

    @with_comms
    def test_matmul(self):
        stays = {
            (R, R): R,
            (S(0), R): S(0),
            (R, S(1)): S(1),
            (S(1), S(0)): P,
            (P, R): P,
            (R, P): P,
        }
        self.check(torch.matmul, [(8, 4), (4, 12)], stays=stays)
        self.check(torch.matmul, [(7, 6), (6, 5)], partial=False)

    @with_comms
    def test_linear(self):
        stays = {(S(0), R, R): S(0), (R, S(0), S(0)): S(1), (R, R, R): R}
        self.check(F.linear, [(8, 4), (12, 4), (12,)], stays=stays, partial=False)

    @with_comms
    def test_batched_matmul(self):
        stays = {(S(0), S(0)): S(0), (S(1), R): S(1), (R, S(2)): S(2), (S(2), S(1)): P}
        self.check(torch.bmm, [(4, 8, 4), (4, 4, 12)], stays=stays, partial=False)

    @with_comms
    def test_add(self):
        stays = {(each, each): each for each in (R, S(0), S(1), P)}
        self.check(torch.add, [(8, 4), (8, 4)], stays=stays)
        self.check(lambda x, y: torch.add(x, y, alpha=3), [(7, 6), (7, 6)], partial=False)
        # The shorter one is spread over the rows.
        stays = {(S(0), R): S(0), (S(1), S(0)): S(1)}
        self.check(torch.add, [(7, 6), (6,)], stays=stays, partial=False)

    @with_comms
    def test_pointwise(self):
        stays = {(each,): each for each in (R, S(0), S(1))}
        self.check(F.relu, [(7, 6)], stays=stays)
        self.check(F.gelu, [(7, 6)], stays=stays, **ROUNDED)
        # Linear: as good on the summands as on the sum.
        self.check(lambda x: x * 3, [(7, 6)], stays={**stays, (P,): P})
        self.check(torch.neg, [(7, 6)], stays={**stays})

    @with_comms
    def test_softmax(self):
        for softmax in (torch.softmax, torch.log_softmax):
            stays = {(R,): R, (S(0),): S(0)}
            self.check(lambda x, f=softmax: f(x, dim=-1), [(7, 6)], stays=stays, **ROUNDED)
            self.check(lambda x, f=softmax: f(x, dim=0), [(8, 5)], stays={(R,): R, (S(1),): S(1)}, **ROUNDED)

    @unittest.skipUnless(torch_at_least("2.12"), "torch 2.11 shards a bias that it needs whole")
    @with_comms
    def test_layer_norm(self):
        stays = {(R, R, R): R, (S(0), R, R): S(0), (S(1), R, R): S(1)}
        self.check(
            lambda x, weight, bias: F.layer_norm(x, (4,), weight, bias),
            [(8, 5, 4), (4,), (4,)],
            stays=stays,
            partial=False,
            rtol=1e-4,
            atol=1e-4,
        )

    @with_comms
    def test_reductions(self):
        self.check(torch.sum, [(7, 6)], stays={(R,): R, (S(0),): P, (S(1),): P, (P,): P})
        self.check(lambda x: x.sum(dim=1), [(7, 6)], stays={(S(0),): S(0), (S(1),): P})
        self.check(lambda x: x.mean(dim=0), [(8, 6)], stays={(S(1),): S(0)}, **ROUNDED)
        self.check(torch.mean, [(8, 4)], **ROUNDED)
        self.check(lambda x: x.amax(dim=1), [(7, 8)], stays={(S(0),): S(0)})

    @with_comms
    def test_norms(self):
        """What no sum of the shards' norms is; over all elements, and over a dimension that may be cut."""
        for order in (1, 2, 3, math.inf, -math.inf):
            # torch's gradient of the infinite ones is wrong, which is in the book.
            with contextlib.nullcontext() if math.isfinite(order) else torch.no_grad():
                norm = partial(torch.linalg.vector_norm, ord=order)
                self.check(norm, [(8, 4)], partial=False, **ROUNDED)
        self.check(lambda x: x.norm(dim=0), [(7, 6)], stays={(S(1),): S(0)}, partial=False, **ROUNDED)

    @with_comms
    def test_products_and_variances(self):
        self.check(torch.var, [(7, 6)], **ROUNDED)
        self.check(lambda x: x.var(dim=0, correction=0), [(7, 6)], stays={(S(1),): S(0)}, **ROUNDED)
        self.check(lambda x: x.std(dim=1, keepdim=True), [(7, 6)], stays={(S(0),): S(0)}, **ROUNDED)
        with torch.no_grad():  # the gradient of a product makes a plain tensor, which DTensor refuses
            self.check(lambda x: x.prod(dim=1), [(7, 6)], stays={(S(0),): S(0)}, **ROUNDED)

    @with_comms
    def test_views(self):
        self.check(torch.t, [(7, 6)], stays={(R,): R, (S(0),): S(1), (S(1),): S(0), (P,): P})
        self.check(lambda x: x.unsqueeze(0), [(7, 6)], stays={(S(0),): S(1), (S(1),): S(2)})
        self.check(lambda x: x.permute(2, 0, 1), [(4, 3, 2)], stays={(S(0),): S(1), (S(2),): S(0)})

    @with_comms
    def test_views_of_even_shards(self):
        # Joining keeps the first of the dimensions sharded; parting gives the shards to the first.
        stays = {(R,): R, (S(0),): S(0), (P,): P}
        self.check(lambda x: x.reshape(8, 6), [(8, 2, 3)], stays=stays, only_these=True)
        stays = {(R,): R, (S(0),): S(0), (S(1),): S(2), (P,): P}
        self.check(lambda x: x.reshape(4, 2, 5), [(8, 5)], stays=stays, only_these=True)

    @with_comms
    def test_cat_and_slices(self):
        self.check(lambda x, y: torch.cat([x, y]), [(4, 6), (8, 6)], stays={(S(1), S(1)): S(1)})
        self.check(lambda x: x[:, 1:4], [(7, 6)], stays={(S(0),): S(0)})
        stays = {(R,): R, (S(0),): S(1)}
        for columns in (2, 3):  # of two that lie alike, and of a third beside what the two agree on
            self.check(lambda x: torch.stack(x.unbind(1)), [(7, columns)], stays=stays, only_these=True)


class Lookups(OperatorBodies):
    """Operators that take indices, which have no gradient."""

    @with_comms
    def test_embedding(self):
        table = small_numbers(1, (10, 6))
        indices = np.array([[3, 9, 0, 3, 5], [1, 1, 7, 2, 8]]).repeat(2, axis=0)
        for at_table, at_indices in self.some(itertools.product((R, S(0), S(1)), (S(0), R, S(1)))):
            self.check_lookup(F.embedding, table, indices, at_table, at_indices)

    def check_lookup(self, operator, table, indices, at_table, at_indices):
        """Check ``operator(indices, table)`` and the table's gradient."""
        msg = f"indices {at_indices}, table {at_table}"
        with rank.outside():
            whole = self.tensor(table).requires_grad_()
            expected = operator(self.tensor(indices), whole)
            weights = self.tensor(small_numbers(3, expected.shape))
            (expected * weights).sum().backward()
        mesh = self.mesh(RANKS)
        laid = self.spread(table, mesh, at_table).requires_grad_()
        found = operator(self.spread(indices, mesh, at_indices), laid)
        joined = found.full_tensor()
        self.assertEqual(joined, expected, msg)
        (joined * weights).sum().backward()
        self.assertEqual(laid.grad.full_tensor(), whole.grad, f"gradient, {msg}")

    @with_comms
    def test_rows_of_an_embedding(self):
        # With the rows sharded each rank finds some of them: a sum of which the others' parts are zero.
        table, indices = small_numbers(1, (8, 3)), np.array([0, 5, 7, 2, 5])
        mesh = self.mesh(RANKS)
        laid = self.spread(table, mesh, S(0))
        with Communication() as communication:
            found = F.embedding(self.spread(indices, mesh, R), laid)
            self.assertEqual(communication.counts, {})
            self.assertTrue(found.placements[0].is_partial())
            moved = found.redistribute(placements=[R])
        self.assertEqual(communication.counts, {"all_reduce": 1})
        self.assertEqual(moved.to_local(), self.tensor(table[indices]))

    @with_comms
    def test_cross_entropy(self):
        all_places = ((R, R), (S(0), S(0)), (S(0), R), (S(1), R))
        cases = itertools.product(("mean", "sum", "none"), (-100, 2), all_places)
        for reduction, ignored, places in self.some(cases):
            if (reduction, ignored, places[0]) != ("mean", 2, S(0)):
                self.check_cross_entropy(places, reduction=reduction, ignore_index=ignored)

    @with_comms
    def test_mean_of_what_ranks_ignore(self):
        # Torch takes the mean of the ranks' means, also where they ignore different numbers of targets, which
        # is another number. A torch that counts targets instead passes no longer.
        with rank.outside():
            scores, targets = self.tensor(SCORES), self.tensor(TARGETS)
            losses = F.cross_entropy(scores, targets, reduction="none")
            counted = targets != 2
            means = [losses[rows][counted[rows]].mean() for rows in torch.arange(8).chunk(RANKS)]
        mesh = self.mesh(RANKS)
        found = F.cross_entropy(
            self.spread(SCORES, mesh, S(0)), self.spread(TARGETS, mesh, S(0)), ignore_index=2
        )
        self.assertEqual(found.full_tensor(), torch.stack(means).mean(), **ROUNDED)
        self.assertNotEqual(found.full_tensor(), losses[counted].mean(), **ROUNDED)

    def check_cross_entropy(self, places, **rules):
        """Check a loss and the gradient of its scores."""
        msg = f"{rules}, scores and targets {places}"
        with rank.outside():
            whole = self.tensor(SCORES).requires_grad_()
            expected = F.cross_entropy(whole, self.tensor(TARGETS), **rules)
            weights = self.tensor(small_numbers(3, expected.shape))
            (expected * weights).sum().backward()
        mesh = self.mesh(RANKS)
        laid = self.spread(SCORES, mesh, places[0]).requires_grad_()
        found = F.cross_entropy(laid, self.spread(TARGETS, mesh, places[1]), **rules).full_tensor()
        self.assertEqual(found, expected, msg, **ROUNDED)
        (found * weights).sum().backward()
        self.assertEqual(laid.grad.full_tensor(), whole.grad, f"gradient, {msg}", **ROUNDED)


in_rank_modes(globals(), Operators, Lookups)

if __name__ == "__main__":
    run_tests()
