"""Where plain tensors become DTensors and DTensors plain ones again: values, gradients, and what is refused.

These are the functions that a user of DTensor calls himself, with their options. Ranks hold different numbers
wherever only one rank's may count.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    empty,
    full,
    ones,
    zeros,
)

from harness import load_tests, run_tests, with_comms  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least, torch_between
from suites.spmd.dtensor_base import RANKS, Bodies, Communication, in_rank_modes
from suites.spmd.sharding_model import Pieces, cut, small_numbers

R, P, S = Replicate(), Partial(), Shard
#: Rows over four ranks: two, two, two and one.
ROWS = (7, 3)
#: The sum of the ranks' factors: rank 0 has one, rank 1 two, ...
FACTORS = RANKS * (RANKS + 1) // 2


class BoundaryBodies(Bodies):
    """Numbers that differ by rank."""

    def numbers(self, shape, rank=None):
        """What a rank has, this one by default."""
        return self.tensor(small_numbers(self.rank if rank is None else rank, shape))


class Entry(BoundaryBodies):
    """From plain tensors to DTensors."""

    @with_comms
    def test_from_local(self):
        mesh = self.mesh(RANKS)
        joined = torch.cat([self.numbers((2, 3), rank) for rank in range(RANKS)], dim=1)
        nowhere = torch.empty(2, 3, device="meta")
        self.assertTrue(DTensor.from_local(nowhere, mesh, [S(0)], run_check=False).to_local().is_meta)
        laid = DTensor.from_local(self.numbers((2, 3)), mesh, [S(-1)])
        self.assertEqual((laid.placements, laid.shape, laid.stride()), ((S(1),), (2, 12), (12, 1)))
        self.assertEqual(laid.full_tensor(), joined)
        # Without placements it is whole on each rank, and nobody looks whether it is the same everywhere.
        with mesh, Communication() as communication:
            whole = DTensor.from_local(self.numbers((2, 3)))
        self.assertEqual((whole.placements, communication.counts), ((R,), {}))
        self.assertEqual(whole.to_local(), self.numbers((2, 3)))
        with self.assertRaisesRegex(RuntimeError, "only accepts torch.Tensor"):
            DTensor.from_local(whole, mesh, [R])

    @with_comms
    def test_from_local_with_a_check(self):
        """What is whole on each rank is the first one's; parts of different sizes need that of the whole."""
        mesh = self.mesh(2, 2)
        laid = DTensor.from_local(self.numbers((2, 3)), mesh, [S(0), R], run_check=True)
        self.assertEqual(laid.to_local(), self.numbers((2, 3), self.rank // 2 * 2))
        laid = DTensor.from_local(self.numbers((2, 3)), mesh, [R, R], run_check=True)
        self.assertEqual(laid.to_local(), self.numbers((2, 3), 0))
        mesh, pieces = self.mesh(RANKS), Pieces((RANKS,), ROWS, [S(0)])
        own, whole = self.tensor(pieces.of(self.rank)), {"shape": torch.Size(ROWS), "stride": (3, 1)}
        with self.assertRaisesRegex(ValueError, "Inconsistent tensor metadata"):
            DTensor.from_local(own, mesh, [S(0)], run_check=True)
        laid = DTensor.from_local(own, mesh, [S(0)], run_check=True, **whole)
        self.check_lies(laid, pieces.whole, [S(0)], "uneven rows")
        for name, value in whole.items():
            with self.assertRaisesRegex(RuntimeError, "shape and stride at the same time"):
                DTensor.from_local(own, mesh, [S(0)], **{name: value})

    @with_comms
    def test_distribute_tensor(self):
        mesh = self.mesh(RANKS)
        for placement in (R, S(0), S(1), S(-2), P):
            laid = distribute_tensor(self.numbers(ROWS), mesh, [placement])
            self.assertEqual(laid.full_tensor(), self.numbers(ROWS, 0), str(placement))
            for source in (2, None):
                if placement is not P:
                    laid = distribute_tensor(self.numbers(ROWS), mesh, [placement], src_data_rank=source)
                    whole = small_numbers(self.rank if source is None else source, ROWS)
                    place = S(0) if placement == S(-2) else placement
                    expected = self.tensor(cut(whole, self.rank, (RANKS,), [place]))
                    self.assertEqual(laid.to_local(), expected, f"{placement} of rank {source}")
                    self.assertEqual(laid.placements, (place,))
        with mesh:
            self.assertEqual(distribute_tensor(self.numbers(ROWS)).placements, (R,))
        self.assertIs(distribute_tensor(laid, mesh, laid.placements), laid)

    @with_comms
    def test_distributed_parameters(self):
        """What is distributed wants a gradient as before, and is no part of what it was made from."""
        for wanted in (True, False):
            given = self.numbers(ROWS).requires_grad_(wanted)
            laid = distribute_tensor(given, self.mesh(RANKS), [S(0)])
            self.assertEqual((laid.requires_grad, laid.is_leaf), (wanted, True))
            if wanted:
                (laid * 3).sum().backward()
                self.assertEqual(laid.grad.full_tensor(), torch.full_like(given, 3))
                self.assertIsNone(given.grad)

    @with_comms
    def test_what_is_not_distributed(self):
        mesh, given = self.mesh(RANKS), self.numbers(ROWS)
        laid = distribute_tensor(given, mesh, [S(0)])
        with self.assertRaisesRegex(RuntimeError, "leaf"):
            distribute_tensor(given.requires_grad_() * 2, mesh, [R])
        with self.assertRaisesRegex(ValueError, "same length"):
            distribute_tensor(given, mesh, [R, R])
        with self.assertRaisesRegex(ValueError, "different placements"):
            distribute_tensor(laid, mesh, [R])
        with self.assertRaisesRegex(ValueError, "different device mesh"):
            distribute_tensor(laid, self.mesh(2, 2), [S(0), R])
        with self.assertRaisesRegex(ValueError, "(?i)mix"):
            distribute_tensor(given.detach(), self.mesh(2, 2), [P, Partial("max")])

    @with_comms
    def test_factories(self):
        for mesh, placements in ((self.mesh(RANKS), (S(0),)), (self.mesh(2, 2), (S(1), S(0)))):
            whole = torch.Size(ROWS)
            for made, expected in (
                (zeros(ROWS, device_mesh=mesh, placements=placements), torch.zeros(ROWS)),
                (ones(*ROWS, device_mesh=mesh, placements=placements, dtype=torch.int64), torch.ones(ROWS)),
                (full(list(ROWS), 2.5, device_mesh=mesh, placements=placements), torch.full(ROWS, 2.5)),
                (empty(ROWS, device_mesh=mesh, placements=placements).zero_(), torch.zeros(ROWS)),
            ):
                msg = f"{expected[0, 0]} as {placements}"
                self.assertEqual(
                    (made.shape, made.placements, made.requires_grad), (whole, placements, False), msg
                )
                self.assertEqual(made.stride(), (3, 1), msg)
                expected = self.tensor(expected.numpy()).to(made.dtype)
                own = cut(expected.cpu().numpy(), self.rank, tuple(mesh.shape), placements)
                self.assertEqual(made.to_local(), self.tensor(own), msg)
                self.assertEqual(made.full_tensor(), expected, msg)
        self.assertIs(ones(3, device_mesh=mesh, dtype=torch.int64).dtype, torch.int64)
        self.assertTrue(full((3,), 1.5, device_mesh=mesh, requires_grad=True).requires_grad)
        with mesh:
            self.assertEqual(zeros(3).placements, (R, R))
        with self.assertRaises(AssertionError):
            zeros(3, device_mesh=mesh, placements=[R])


class Way(BoundaryBodies):
    """Ways between placements and out of DTensor, and what comes back on them as a gradient."""

    @unittest.skipUnless(torch_at_least("2.12"), "before torch 2.12 from_local takes no grad_placements")
    @with_comms
    def test_gradients_of_locals(self):
        """As the tensor was laid, unless ``grad_placements`` say otherwise."""
        mesh, weights = self.mesh(RANKS), self.tensor(small_numbers(9, (4, 3)))
        for asked, factor in ((None, FACTORS), ([P], 1 + self.rank)):
            own = self.numbers((4, 3)).requires_grad_()
            laid = DTensor.from_local(own, mesh, [R], grad_placements=asked)
            # What follows differs by rank, so that its gradient is a part of a sum.
            (laid.to_local(grad_placements=[P]) * weights * (1 + self.rank)).sum().backward()
            self.assertEqual(own.grad, weights * factor, str(asked))
        # Of what is a part of a sum the gradient is the sum's.
        own = self.numbers((4, 3)).requires_grad_()
        (DTensor.from_local(own, mesh, [P]).full_tensor() * weights).sum().backward()
        self.assertEqual(own.grad, weights)
        own = self.numbers((4, 3)).requires_grad_()
        (DTensor.from_local(own, mesh, [P]).full_tensor(grad_placements=[P]) * weights).sum().backward()
        self.assertEqual(own.grad, weights * RANKS)

    @with_comms
    def test_gradients_of_wholes(self):
        """A whole that ranks use differently: each gets its part of the sum of all gradients."""
        mesh, weights = self.mesh(RANKS), self.tensor(small_numbers(9, ROWS))
        for asked, factor in ((None, 1), ([P], FACTORS)):
            laid = self.spread(small_numbers(1, ROWS), mesh, S(0)).requires_grad_()
            own = 1 if asked is None else 1 + self.rank
            (laid.full_tensor(grad_placements=asked) * weights * own).sum().backward()
            self.assertEqual(laid.grad.placements, (S(0),))
            self.assertEqual(laid.grad.full_tensor(), weights * factor, str(asked))

    @with_comms
    def test_locals_share_memory(self):
        """What is read of a DTensor is its own memory; a parameter's part is a parameter."""
        own = self.numbers((2, 3))
        laid = DTensor.from_local(own, self.mesh(RANKS), [S(0)])
        own += 1
        self.assertEqual(laid.to_local(), own)
        laid.to_local().zero_()
        self.assertEqual(own, torch.zeros_like(own))
        self.assertNotIsInstance(laid.to_local(), nn.Parameter)
        for context in (torch.enable_grad, torch.no_grad) if torch_at_least("2.13") else ():
            with context():
                self.assertIsInstance(nn.Parameter(laid).to_local(), nn.Parameter)

    @with_comms
    def test_redistribute_later(self):
        """An asynchronous one is waited for by whatever reads it; its gradient comes the same way."""
        mesh, whole = self.mesh(RANKS), small_numbers(1, ROWS)
        laid = self.spread(whole, mesh, S(0)).requires_grad_()
        moved = laid.redistribute(placements=[S(-1)], async_op=True)
        self.check_lies(moved.detach(), whole, [S(1)], "moved")
        (moved * moved).sum().backward()
        self.check_lies(laid.grad, 2 * whole, [S(0)], "gradient")
        with self.assertRaisesRegex(RuntimeError, "internal use only"):
            laid.redistribute(placements=[P])
        with self.assertRaisesRegex(RuntimeError, "placements is needed"):
            laid.redistribute(mesh)

    @with_comms
    def test_redistribute_in_another_dtype(self):
        """Sums are taken in the dtype that is asked for, forward or backward; gradients keep the tensor's."""
        mesh = self.mesh(RANKS)
        # In float32 the ones are lost beside the first.
        own = torch.full((4,), 1.0 if self.rank else 2.0**25, device=self.device_type, requires_grad=True)
        moved = DTensor.from_local(own, mesh, [P]).redistribute(placements=[R], forward_dtype=torch.float64)
        self.assertEqual(moved.to_local(), torch.full_like(moved.to_local(), 2.0**25 + 3), atol=0, rtol=0)
        self.assertIs(moved.dtype, torch.float64)
        moved.to_local().sum().backward()
        self.assertEqual(own.grad, torch.ones_like(own))

        third = self.tensor(small_numbers(0, (4,))) * 0 + 1 / 3
        for dtype in (None, torch.float16):
            laid = self.spread(small_numbers(1, (4,)), mesh, S(0)).requires_grad_()
            moved = laid.redistribute(placements=[R], backward_dtype=dtype)
            self.assertIs(moved.dtype, torch.float32)
            (moved.to_local(grad_placements=[P]) * third).sum().backward()
            found = laid.grad.to_local()
            self.assertEqual(found, torch.full_like(found, 4 / 3), atol=1e-2, rtol=0)
            # No number of float16 is nearer to 4/3. torch 2.12 takes the sum in float32 all the same.
            exact = dtype is None or torch_between("2.12", "2.13")
            self.assertEqual((found - 4 / 3).abs().max().item() < 1e-4, exact)

    @with_comms
    def test_equality(self):
        """It is that of the wholes, on each rank, whichever has what differs."""
        mesh, whole = self.mesh(RANKS), small_numbers(1, ROWS)
        other = whole.copy()
        other[-1, 0] += 1
        for placement in (R, S(0), S(1)):
            laid = self.spread(whole, mesh, placement)
            self.assertTrue(torch.equal(laid, laid.clone()), str(placement))
            self.assertFalse(torch.equal(laid, self.spread(other, mesh, placement)), str(placement))

    @with_comms
    def test_where_a_checkpoint_puts_parts(self):
        mesh, placements = self.mesh(2, 2), (S(0), S(1))
        laid = self.spread(small_numbers(1, ROWS), mesh, *placements)
        (chunk,) = laid.__create_chunk_list__()
        rows, columns = [(0, 4), (4, 3)][self.rank // 2], [(0, 2), (2, 1)][self.rank % 2]
        self.assertEqual(tuple(chunk.offsets), (rows[0], columns[0]))
        self.assertEqual(tuple(chunk.sizes), (rows[1], columns[1]))
        (item,) = laid.__create_write_items__("weight", laid)
        self.assertEqual((item.index.fqn, item.index.offset), ("weight", chunk.offsets))
        self.assertEqual(item.tensor_data.chunk, chunk)
        self.assertEqual(item.tensor_data.size, ROWS)
        self.assertEqual(laid.__get_tensor_shard__(item.index), laid.to_local())
        summands = DTensor.from_local(self.numbers(ROWS), mesh, [P, R])
        with self.assertRaisesRegex(ValueError, "partial placements"):
            summands.__create_chunk_list__()


in_rank_modes(globals(), Entry, Way, modes=("OnPooledRanks",))

if __name__ == "__main__":
    run_tests()
