"""Which way DTensor takes where several give the right numbers: what is moved, and what is not.

The numbers are compared with those of the whole all the same.
"""

from __future__ import annotations

import itertools
import math
import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry
from torch.distributed.tensor.placement_types import _StridedShard
from torch.nn import functional as F

from harness import TestCase, load_tests, run_tests, with_comms  # noqa: F401  (unittest calls load_tests)
from harness.ranks.local import rank
from harness.releases import torch_at_least
from suites.spmd.dtensor_base import RANKS, Communication, in_rank_modes
from suites.spmd.sharding_model import Pieces, small_numbers
from suites.spmd.test_dtensor_ops import OperatorBodies

R, P, S = Replicate(), Partial(), Shard
SHAPE = (8, 4)
#: Functions of tensors each of which a rank can apply to its part, and the shapes of their tensors.
FOREACH = {
    "add_scalar": lambda x, y, z: torch._foreach_add([x, y, z], 2.0),
    "add_scalars": lambda x, y, z: torch._foreach_add([x, y, z], [1.0, 2.0, 3.0]),
    "add_list": lambda x, y, z: torch._foreach_add([x, y], [y, z], alpha=2),
    "mul_scalars": lambda x, y, z: torch._foreach_mul([x, y, z], [1.0, 2.0, 3.0]),
    "div_list": lambda x, y, z: torch._foreach_div([x, y], [y, z]),
    "sqrt": lambda x, y, z: torch._foreach_sqrt([x, y, z]),
    "lerp_scalar": lambda x, y, z: torch._foreach_lerp([x, y], [y, z], 0.25),
    "addcmul_scalar": lambda x, y, z: torch._foreach_addcmul([x, y], [y, z], [z, x], 0.5),
    "zero_and_add_in_place": lambda x, y, z: _in_place([x, y], [y, z]),
}


def _in_place(outputs, others):
    made = [each.clone() for each in outputs]
    torch._foreach_zero_(made)
    torch._foreach_add_(made, others)
    torch._foreach_mul_(made, 3.0)
    return made


class Choices(OperatorBodies):
    """Operators whose result, or whose communication, says which way was taken."""

    def wholes(self, pieces):
        with rank.outside():
            return [self.tensor(each.whole) for each in pieces]

    @unittest.skipUnless(torch_at_least("2.13"), "not all of these are DTensor's before torch 2.13")
    @with_comms
    def test_foreach(self):
        """Of lists that lie alike nothing is moved, whatever goes with the lists."""
        for name, placement in zip(FOREACH, itertools.cycle((S(0), S(1)))):
            operator = FOREACH[name]
            pieces = [Pieces((RANKS,), shape, (placement,)) for shape in (SHAPE,) * 3]
            laid = [self.laid(each) + n for n, each in enumerate(pieces)]
            expected = operator(*(each + n for n, each in enumerate(self.wholes(pieces))))
            with Communication() as communication:
                found = operator(*laid)
            msg = f"{name} of {placement}"
            self.assertEqual(communication.counts, {}, msg)
            self.assertEqual([each.placements for each in found], [(placement,)] * len(expected), msg)
            for one, other in zip(found, expected, strict=True):
                self.assertEqual(one.full_tensor(), other, msg)

    @unittest.skipUnless(torch_at_least("2.12"), "DTensor of torch 2.11 does otherwise")
    @with_comms
    def test_padded_parts(self):
        """Where all ranks put the same into the margins, that is the maximum and the average, but no sum."""
        for kind, value, margins in itertools.product(("sum", "avg", "min"), (0.0, 3.0), ((0, 0), (0, 2))):
            piece = Pieces((RANKS,), SHAPE, (Partial(kind),))
            with rank.outside():
                expected = F.pad(self.tensor(piece.whole), margins, value=value)
            with Communication() as communication:
                found = F.pad(self.laid(piece), margins, value=value)
            msg = f"{kind} {value} {margins}"
            self.assertEqual(found.full_tensor(), expected, msg)
            if kind != "sum" or value == 0 or not any(margins):
                self.assertEqual((found.placements, communication.counts), ((Partial(kind),), {}), msg)

    @with_comms
    def test_what_is_compared_by_parts(self):
        """The tensor that lies whole everywhere is cut for the comparison; the other is not gathered."""
        whole = small_numbers(1, SHAPE)
        cut, everywhere = (self.spread(whole, self.mesh(RANKS), each) for each in (S(0), R))
        for pair in ((cut, everywhere), (everywhere, cut)):
            with Communication() as communication:
                self.assertTrue(torch.equal(*pair))
            self.assertNotIn("all_gather_into_tensor", communication.counts)
        # Two dimensions of the mesh: the side that is cut more often has its way.
        often = self.spread(whole, self.mesh(2, 2), S(0), S(1))
        once = self.spread(whole, self.mesh(2, 2), S(0), R)
        for pair in ((often, once), (once, often)):
            with Communication() as communication:
                self.assertTrue(torch.equal(*pair))
            self.assertNotIn("all_gather_into_tensor", communication.counts)

    @with_comms
    def test_the_smaller_one_is_moved(self):
        """What is spread over rows is gathered for them; rows are not gathered for it."""
        rows = self.laid(Pieces((RANKS,), (64, 4), (S(0),)))
        line = self.laid(Pieces((RANKS,), (4,), (S(0),)))
        for operator in (torch.add, torch.mul, lambda x, y: torch.where(x > 3, x, y)):
            for found in (operator(rows, line), operator(rows, line.redistribute(placements=[R]))):
                self.assertEqual(found.placements, (S(0),))
        narrow = self.laid(Pieces((RANKS,), (4, 4), (S(0),)))
        self.assertEqual((rows @ narrow).placements, (S(0),))
        wide = self.laid(Pieces((RANKS,), (4, 64), (S(1),)))
        self.assertEqual((narrow @ wide).placements, (S(1),))

    @with_comms
    def test_views_share_memory(self):
        """What is written into a view of a DTensor is in the DTensor, and moves nothing."""
        for view in (
            lambda x: x.view(8, 2, 2),
            lambda x: x.t(),
            lambda x: x.unsqueeze(1),
            lambda x: x.unflatten(0, (4, 2)),
            lambda x: x.detach(),
            lambda x: x[:, 1:3],
        ):
            laid = self.laid(Pieces((RANKS,), SHAPE, (S(0),)))
            with rank.outside():
                whole = self.tensor(small_numbers(0, SHAPE))
                view(whole).mul_(3)
            with Communication() as communication:
                view(laid).mul_(3)
            self.assertEqual(communication.counts, {})
            self.assertEqual(laid.full_tensor(), whole)

    @with_comms
    def test_results_that_are_given(self):
        """``out=`` is written, is returned, and takes the layout of what was computed."""
        piece = Pieces((RANKS,), SHAPE, (S(0),))
        laid = self.laid(piece)
        (whole,) = self.wholes([piece])
        given = torch.zeros_like(laid)
        self.assertIs(torch.add(laid, laid, out=given), given)
        self.assertEqual((given.placements, given.full_tensor()), ((S(0),), whole + whole))
        self.assertIs(laid.mul_(2), laid)
        self.assertEqual(laid.full_tensor(), whole * 2)
        squeezed = DTensor.from_local(
            self.on_each(lambda rank: small_numbers(rank, (1, 2))), self.mesh(RANKS), [S(1)]
        )
        self.assertIs(squeezed.squeeze_(0), squeezed)
        self.assertEqual((squeezed.placements, squeezed.shape), ((S(0),), (2 * RANKS,)))


class Sizes:
    """As much of a mesh as the order of its dimensions takes."""

    def __init__(self, *sizes):
        self.sizes = sizes

    def size(self, dim):
        return self.sizes[dim]


class ShardOrderTest(TestCase):
    """In which order dimensions of a mesh cut one of a tensor. No ranks."""

    def test_orders_as_strides(self):
        """Each order has strided placements of its own, which say the order again."""
        mesh = Sizes(2, 3, 5)
        seen = {}
        for count in (1, 2, 3):
            for dims in itertools.permutations(range(3), count):
                placements = tuple(S(0) if dim in dims else R for dim in range(3))
                order = (ShardOrderEntry(tensor_dim=0, mesh_dims=dims),)
                strided = DTensorSpec._convert_shard_order_to_StridedShard(order, placements, mesh)
                for dim, placement in enumerate(strided):
                    if dim in dims:
                        # Cut before it by dimensions to the right, which count as if they came later.
                        earlier = [d for d in dims[: dims.index(dim)] if d > dim]
                        factor = math.prod(mesh.size(d) for d in earlier)
                        expected = S(0) if factor == 1 else _StridedShard(0, split_factor=factor)
                    else:
                        expected = R
                    self.assertEqual(placement, expected, dims)
                found = DTensorSpec._maybe_convert_StridedShard_to_shard_order(strided, mesh)
                self.assertEqual(found, order)
                self.assertNotIn(strided, seen)
                seen[strided] = dims

    def test_two_dimensions_of_a_tensor(self):
        mesh = Sizes(2, 3, 5)
        order = (
            ShardOrderEntry(tensor_dim=0, mesh_dims=(2, 0)),
            ShardOrderEntry(tensor_dim=1, mesh_dims=(1,)),
        )
        strided = DTensorSpec._convert_shard_order_to_StridedShard(order, (S(0), S(1), S(0)), mesh)
        self.assertEqual(strided, (_StridedShard(0, split_factor=5), S(1), S(0)))
        self.assertEqual(DTensorSpec._maybe_convert_StridedShard_to_shard_order(strided, mesh), order)

    def test_a_dimension_of_one_rank(self):
        """It cuts nothing, and is in the order once all the same."""
        found = DTensorSpec._maybe_convert_StridedShard_to_shard_order(
            (_StridedShard(0, split_factor=3), S(0), S(0)), Sizes(2, 1, 3)
        )
        self.assertEqual([sorted(entry.mesh_dims) for entry in found], [[0, 1, 2]])

    def test_strides_that_no_order_has(self):
        mesh = Sizes(2, 3, 5)
        for placements in (
            (_StridedShard(0, split_factor=4), S(0), S(0)),
            (_StridedShard(0, split_factor=3), R, S(0)),
            (R, R, _StridedShard(0, split_factor=2)),
        ):
            found = DTensorSpec._maybe_convert_StridedShard_to_shard_order(placements, mesh)
            self.assertIsNone(found, placements)


in_rank_modes(globals(), Choices, modes=("OnLocalTensors",))

if __name__ == "__main__":
    run_tests()
