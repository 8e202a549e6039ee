"""Operators on DTensors that the other suites call by the database at most: one call of each, in each layout.

A result and its gradient are those of the whole. What can be computed on shards is not gathered for it.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.nn import functional as F

from harness import load_tests, run_tests, with_comms  # noqa: F401  (unittest calls load_tests)
from harness.ranks.local import rank
from harness.releases import torch_at_least
from suites.spmd.dtensor_base import RANKS, ROUNDED, in_rank_modes
from suites.spmd.sharding_model import Pieces, small_numbers
from suites.spmd.test_dtensor_ops import OperatorBodies

R, P, S = Replicate(), Partial(), Shard
#: No dimension of the whole is even, and one leaves a rank without a shard.
SHAPE = (7, 5)


class Calls(OperatorBodies):
    """Calls by subject. ``stays`` are the placements of which nothing is communicated."""

    def check_calls(self, *calls, shape=SHAPE, numbers=RANKS):
        """Check each ``(operator, placements that stay)`` in every layout of its one tensor."""
        for operator, stays in calls:
            for placement in (R, *map(S, range(len(shape)))):
                msg = f"{operator} of {placement}"
                pieces = [Pieces((numbers,), shape, (placement,))]
                _, moved = self.check_one(operator, pieces, msg, **ROUNDED)
                if placement in stays:
                    self.assertEqual(moved, {}, msg)

    @unittest.skipUnless(torch_at_least("2.12"), "DTensor of torch 2.11 does less, or otherwise")
    @with_comms
    def test_reductions(self):
        self.check_calls(
            (lambda x: (x / 8).logsumexp(1), (R, S(0))),
            (lambda x: (x / 8).logsumexp((0, 1), keepdim=True), (R,)),
            (lambda x: torch.std_mean(x, 0)[0], (R, S(1))),
            (lambda x: x.sum((0, -1), keepdim=True), (R,)),
        )

    @with_comms
    def test_places(self):
        """Where something is has no gradient, and is counted in the whole."""
        with torch.no_grad():
            self.check_calls(
                (lambda x: x.argmax(0), (R, S(1))),
                (lambda x: x.argsort(dim=1, stable=True), (R, S(0))),
                (lambda x: (x > 8).any(0), (R, S(1))),
                (lambda x: (x > 2).all(), (R,)),
                shape=(8, 7),  # no operator finds the place of the least number among none
            )

    @unittest.skipUnless(torch_at_least("2.12"), "DTensor of torch 2.11 does less, or otherwise")
    @with_comms
    def test_parts(self):
        self.check_calls(
            (lambda x: F.pad(x, (1, 2)), (R, S(0))),
            (lambda x: F.pad(x, (0, 0, 2, 0), value=3.0), (R, S(1))),
            (lambda x: x.flip(0), (R, S(1))),
            (lambda x: x.roll(2, 1), (R, S(0))),
            (lambda x: x.narrow(1, 1, 3), (R, S(0))),
            (lambda x: torch.cat(x.split(3)[::-1]), (R, S(1))),
            (lambda x: torch.cat(x.chunk(2, dim=1)[::-1], dim=1), (R, S(0))),
            (lambda x: x.select(0, -2), (R, S(1))),
        )

    @with_comms
    def test_triangles(self):
        """Which elements are left depends on their places in the whole."""
        self.check_calls(
            (lambda x: x.tril(1), (R,)),
            (lambda x: x.triu(-1), (R,)),
        )

    @with_comms
    def test_of_several_tensors(self):
        """Of tensors that lie alike; shards of a number beside them are the number."""
        for placement in (R, S(0), S(1)):
            pieces = [Pieces((RANKS,), SHAPE, (placement,)) for _ in range(3)]
            for operator in (
                lambda x, y, z: x + torch.where(x.detach() > 8, y, z),
                lambda x, y, z: torch.addcmul(x, y, z, value=0.5),
                lambda x, y, z: torch.lerp(x, y, 0.25) + z.clamp(3, 9),
                lambda x, y, z: torch.stack(torch._foreach_mul([x, y], [z, z])).sum(0),
            ):
                _, moved = self.check_one(operator, pieces, f"{placement}", **ROUNDED)
                if placement is R:
                    self.assertEqual(moved, {})

    @with_comms
    def test_products(self):
        for placement in (R, S(0), S(1)):
            one = Pieces((RANKS,), (5, 7), (placement,))
            for other, operator in (
                (Pieces((RANKS,), (7,), (R,)), torch.mv),
                (
                    Pieces((RANKS,), (7, 6), (S(1),)),
                    lambda x, y: torch.addmm(x[:, :6], x, y, beta=2, alpha=0.5),
                ),
                (Pieces((RANKS,), (7, 6), (R,)), lambda x, y: torch.einsum("ij,jk->ki", x, y)),
            ):
                self.check_one(operator, [one, other], f"{placement}", **ROUNDED)

    @unittest.skipUnless(torch_at_least("2.12"), "DTensor of torch 2.11 does less, or otherwise")
    @with_comms
    def test_indices(self):
        places = torch.tensor([4, 0, 4, 2])
        for placement in (R, S(0), S(1)):
            laid = self.laid(Pieces((RANKS,), SHAPE, (placement,))).requires_grad_()
            with rank.outside():
                whole = self.tensor(small_numbers(0, SHAPE)).requires_grad_()
                expected = whole.index_select(0, places.to(self.device_type))
                (expected * expected).sum().backward()
            found = laid.index_select(0, self.spread(places.numpy(), self.mesh(RANKS), R))
            self.assertEqual(found.full_tensor(), expected, f"{placement}")
            (found.full_tensor() ** 2).sum().backward()
            self.assertEqual(laid.grad.full_tensor(), whole.grad, f"gradient, {placement}")

    @with_comms
    def test_likes(self):
        """What is made like a DTensor lies as it does."""
        for placement in (R, S(0), S(1)):
            laid = self.laid(Pieces((RANKS,), SHAPE, (placement,)))
            for made, value in (
                (torch.zeros_like(laid), 0),
                (torch.ones_like(laid, dtype=torch.int64), 1),
                (torch.full_like(laid, 3), 3),
            ):
                self.assertEqual((made.placements, made.shape), ((placement,), SHAPE))
                self.assertEqual(made.full_tensor(), torch.full_like(made.full_tensor(), value))
            self.assertEqual(laid.new_zeros(3, 2).full_tensor(), torch.zeros(3, 2, device=self.device_type))


class TwoMeshDimensions(OperatorBodies):
    """Views of what is cut over two dimensions of a mesh, and operators that give or take several tensors."""

    @unittest.skipUnless(torch_at_least("2.12"), "DTensor of torch 2.11 does less, or otherwise")
    @with_comms
    def test_dimensions_that_are_both_cut(self):
        """Joined, a rank's part of the result is in several pieces: as many as it has of the other."""
        for shape, joined, first in (((8, 6), (48,), 0), ((8, 6, 2), (48, 2), 0), ((3, 12, 4), (3, 48), 1)):
            for placements in ((S(first), S(first + 1)), (S(first + 1), S(first)), (S(first + 1), R)):
                pieces = [Pieces((2, 2), shape, placements)]
                _, moved = self.check_one(lambda x, to=joined: x.reshape(to), pieces, f"{shape} {placements}")
                self.assertEqual(moved, {}, f"{shape} {placements}")
                back = self.check_one(lambda x, s=shape, to=joined: x.reshape(to).reshape(s), pieces, "back")
                self.assertEqual(back, (placements, {}), f"{shape} {placements}")

    @unittest.skipUnless(torch_at_least("2.12"), "DTensor of torch 2.11 does less, or otherwise")
    @with_comms
    def test_tensors_on_other_meshes(self):
        """No operator takes tensors on two meshes, even of the same ranks; a list may have one on each."""
        whole = small_numbers(1, (8, 6))
        laid = [
            self.spread(whole, mesh, *[R] * mesh.ndim) for mesh in (self.mesh(RANKS), self.mesh(1, RANKS))
        ]
        for operator in (torch.add, lambda x, y: x @ y.t()):
            with self.assertRaisesRegex((ValueError, RuntimeError), "with different meshes"):
                operator(*laid)
        for found, given in zip(torch._foreach_mul(laid, 3.0), laid, strict=True):
            self.assertEqual(found.device_mesh, given.device_mesh)
            self.assertEqual(found.full_tensor(), self.tensor(whole * 3))

    @with_comms
    def test_of_several_results(self):
        """Each result of one operator lies as the others."""
        for shape, placement, expected in (((7, 6), S(0), S(0)), ((8, 6), R, R)):
            laid = self.laid(Pieces((RANKS,), shape, (placement,)))
            values, places = laid.topk(2, dim=1)
            with rank.outside():
                whole = self.tensor(Pieces((RANKS,), shape, (placement,)).whole).topk(2, dim=1)
            self.assertEqual((values.placements, places.placements), ((expected,), (expected,)))
            self.assertEqual(values.shape, places.shape)
            self.assertEqual(values.full_tensor(), whole.values)
            self.assertEqual(places.full_tensor(), whole.indices)


class Convolutions(OperatorBodies):
    """Convolutions of images that are cut by the batch; weights are whole."""

    @unittest.skipUnless(torch_at_least("2.12"), "DTensor of torch 2.11 does less, or otherwise")
    @with_comms
    def test_convolution(self):
        stays = {(S(0), R, R): S(0), (R, R, R): R}
        for convolution, rules in (
            (F.conv2d, {"padding": 1}),
            (F.conv2d, {"stride": 2, "dilation": 2}),
            (F.conv_transpose2d, {"padding": 1, "stride": 2}),
        ):
            self.check(
                lambda x, weight, bias, f=convolution, rules=rules: f(x, weight, bias, **rules),
                [(7, 2, 5, 6), (2, 2, 3, 2), (2,)],
                stays=stays,
                only_these=True,
                **ROUNDED,
            )


in_rank_modes(globals(), Calls, TwoMeshDimensions, modes=("OnLocalTensors",))
in_rank_modes(globals(), Convolutions, modes=("OnPooledRanks",))

if __name__ == "__main__":
    run_tests()
