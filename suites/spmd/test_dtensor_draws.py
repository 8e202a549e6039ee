"""DTensor on drawn shapes, meshes and placements, against the model of shards and whole tensors.

All ranks have the same draws (``harness.same_draws``), so that they meet in the same collectives. Meshes have
dimensions of size 1 among others, shards are uneven or missing, one tensor dimension is cut twice.
``HARNESS_EXAMPLES=1000`` looks for more.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from hypothesis import strategies as st
from torch.distributed.tensor import distribute_tensor

from harness import (  # noqa: F401  (unittest calls load_tests)
    layouts,
    load_tests,
    mesh_placements,
    mesh_shapes,
    moves,
    run_tests,
    same_draws,
    with_comms,
)
from harness.ranks.local import rank
from harness.releases import torch_at_least
from suites.spmd.dtensor_base import RANKS, ROUNDED, Bodies, in_rank_modes
from suites.spmd.sharding_model import Pieces, small_numbers

MESHES = mesh_shapes(RANKS, max_dims=2, ones=True)
SIDES = st.integers(1, 9)


@st.composite
def products(draw):
    """A mesh, three sides, and placements of a matrix of the first two and one of the last two."""
    mesh = draw(MESHES)
    placed = mesh_placements(len(mesh), 2)
    return mesh, draw(st.tuples(SIDES, SIDES, SIDES)), draw(placed), draw(placed)


class Drawn(Bodies):
    """What holds for every shape, mesh and placement."""

    @with_comms
    def test_distribute(self):
        for layout in self.some(same_draws(layouts(RANKS, meshes=MESHES), 20, confirm=True)):
            whole = small_numbers(1, layout.shape)
            mesh = self.mesh(*layout.mesh_shape)
            tensor = distribute_tensor(self.tensor(whole), mesh, layout.placements)
            self.check_lies(tensor, whole, layout.placements, str(layout))

    @with_comms
    def test_redistribute(self):
        for move in self.some(same_draws(moves(RANKS, meshes=MESHES, partial=("sum",)), 20, confirm=True)):
            pieces = Pieces(move.mesh_shape, move.shape, move.before)
            moved = self.laid(pieces).redistribute(placements=move.after)
            self.check_lies(moved, pieces.whole, move.after, str(move))

    @unittest.skipUnless(torch_at_least("2.12"), "torch 2.11 leaves some gradients replicated")
    @with_comms
    def test_there_and_back(self):
        # What is moved away and back lies as it did. Its gradient comes the same way, and is all ones.
        for move in self.some(same_draws(moves(RANKS, meshes=MESHES), 10, seed=2, confirm=True)):
            whole = small_numbers(2, move.shape)
            tensor = self.laid(Pieces(move.mesh_shape, move.shape, move.before)).detach()
            tensor = (tensor * 0 + self.spread(whole, tensor.device_mesh, *move.before)).requires_grad_()
            back = tensor.redistribute(placements=move.after).redistribute(placements=move.before)
            self.check_lies(back, whole, move.before, str(move))
            back.sum().backward()
            self.check_lies(tensor.grad, whole * 0 + 1, move.before, f"gradient, {move}")

    @with_comms
    def test_matmul(self):
        for mesh, (rows, inner, columns), left, right in self.some(same_draws(products(), 15, confirm=True)):
            msg = f"{(rows, inner)} @ {(inner, columns)} on {mesh}, {left} and {right}"
            one, other = small_numbers(1, (rows, inner)), small_numbers(2, (inner, columns))
            weights = self.tensor(small_numbers(3, (rows, columns)))
            with rank.outside():
                wholes = [self.tensor(each).requires_grad_() for each in (one, other)]
                expected = torch.matmul(*wholes)
                (expected * weights).sum().backward()
            laid = [
                self.spread(each, self.mesh(*mesh), *placements).requires_grad_()
                for each, placements in ((one, left), (other, right))
            ]
            found = torch.matmul(*laid).full_tensor()
            self.assertEqual(found, expected, msg)
            (found * weights).sum().backward()
            for tensor, whole in zip(laid, wholes, strict=True):
                self.assertEqual(tensor.grad.full_tensor(), whole.grad, f"gradient, {msg}")

    @with_comms
    def test_over_a_dimension(self):
        # Along each dimension, cut or not.
        for layout in self.some(same_draws(layouts(RANKS, meshes=MESHES), 8, seed=3)):
            whole = small_numbers(1, layout.shape)
            tensor = self.spread(whole, self.mesh(*layout.mesh_shape), *layout.placements)
            for dim in range(whole.ndim):
                msg = f"dimension {dim} of {layout}"
                self.assertEqual(tensor.sum(dim).full_tensor(), self.tensor(whole.sum(dim)), msg)
                with rank.outside():
                    expected = self.tensor(whole).softmax(dim)
                self.assertEqual(tensor.softmax(dim).full_tensor(), expected, msg, **ROUNDED)


in_rank_modes(globals(), Drawn)

if __name__ == "__main__":
    run_tests()
