"""DTensor: every placement leads to every other, by no more communication than it takes.

Compared with a model of shards in numpy: what each rank holds afterwards, and the whole. Shards are uneven,
some ranks have none; ranks that hold parts of a sum hold different ones.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from harness import load_tests, run_tests, with_comms  # noqa: F401  (unittest calls load_tests)
from suites.spmd.dtensor_base import Bodies, Communication, in_rank_modes
from suites.spmd.sharding_model import Pieces, cut, small_numbers

#: Even; uneven in both dimensions; and with a dimension that leaves ranks without a shard.
SHAPES = ((8, 4), (7, 6), (5, 3))
KINDS = (Replicate(), Shard(0), Shard(1))
#: What has to be communicated on a mesh of one dimension; nothing for what is not here.
COLLECTIVES = {
    (Shard(0), Replicate()): {"all_gather_into_tensor": 1},
    (Shard(1), Replicate()): {"all_gather_into_tensor": 1},
    (Partial(), Replicate()): {"all_reduce": 1},
    (Partial(), Shard(0)): {"reduce_scatter_tensor": 1},
    (Partial(), Shard(1)): {"reduce_scatter_tensor": 1},
    # On the CPU a gathering stands in for it.
    (Shard(0), Shard(1)): {"shard_dim_alltoall": 1},
    (Shard(1), Shard(0)): {"shard_dim_alltoall": 1},
}
ON_CPU = {"shard_dim_alltoall": "all_gather_into_tensor"}


class Redistribute(Bodies):
    """Redistributions, on meshes of one dimension and of two."""

    @with_comms
    def test_one_dimension(self):
        for shape, before, after in itertools.product(SHAPES, (*KINDS, Partial()), KINDS):
            pieces = Pieces((4,), shape, (before,))
            tensor = self.laid(pieces)
            with self.cell("redistribute", f"{before} to {after}"):
                with Communication() as communication:
                    moved = tensor.redistribute(placements=(after,))
                msg = f"{shape} from {before} to {after}"
                expected = COLLECTIVES.get((before, after), {})
                if self.device_type == "cpu" and not self.is_local_tensor_enabled:
                    expected = {ON_CPU.get(name, name): count for name, count in expected.items()}
                self.assertEqual(communication.counts, expected, msg)
                self.check_lies(moved, pieces.whole, (after,), msg)

    @with_comms
    def test_two_dimensions(self):
        befores = itertools.product((*KINDS, Partial()), repeat=2)
        for before, *after in self.some((b, *a) for b in befores for a in itertools.product(KINDS, repeat=2)):
            pieces = Pieces((2, 2), (7, 6), before)
            moved = self.laid(pieces).redistribute(placements=after)
            self.check_lies(moved, pieces.whole, after, f"from {before} to {after}")

    @with_comms
    def test_partial_reductions(self):
        # The group of ranks that are threads can reduce and scatter sums only.
        others = () if self.rank_modes == ("threads",) else ("avg", "max", "min", "product")
        for reduction, after in itertools.product(("sum", *others), KINDS):
            for mesh_shape in ((4,), (2, 2)):
                pieces = Pieces(mesh_shape, (5, 6), (Partial(reduction),) * len(mesh_shape))
                placements = (after,) * len(mesh_shape)
                moved = self.laid(pieces).redistribute(placements=placements)
                self.check_lies(moved, pieces.whole, placements, f"{reduction} on {mesh_shape} to {after}")

    @with_comms
    def test_gradients(self):
        # The loss weighs the elements of the whole: the weights are the gradient of the whole, and of each
        # summand of it.
        weights = small_numbers(9, (7, 6))
        for before, after in itertools.product((*KINDS, Partial()), KINDS):
            msg = f"from {before} to {after}"
            pieces = Pieces((4,), (7, 6), (before,))
            tensor = self.laid(pieces).requires_grad_()
            joined = tensor.redistribute(placements=(after,)).full_tensor()
            self.assertEqual(joined, self.tensor(pieces.whole), msg)
            (joined * self.tensor(weights)).sum().backward()
            expected = Replicate() if before.is_partial() else before
            self.check_lies(tensor.grad, weights, (expected,), msg)

    @with_comms
    def test_gradients_from_local(self):
        # What is whole on each rank goes into one whole: each rank gets all of the gradient of its own.
        weights = small_numbers(9, (7, 6))
        for before, after in itertools.product((*KINDS, Partial()), KINDS):
            pieces = Pieces((4,), (7, 6), (before,))
            own = self.on_each(pieces.of).requires_grad_()
            tensor = DTensor.from_local(
                own, self.mesh(4), (before,), run_check=False, shape=(7, 6), stride=(6, 1)
            )
            joined = tensor.redistribute(placements=(after,)).full_tensor()
            self.assertEqual(joined, self.tensor(pieces.whole), f"from {before} to {after}")
            (joined * self.tensor(weights)).sum().backward()
            expected = self.on_each(lambda rank, before=before: cut(weights, rank, (4,), (before,)))
            self.assertEqual(own.grad, expected, f"from {before} to {after}")

    @with_comms
    def test_to_partial_is_refused(self):
        for before in KINDS:
            tensor = self.laid(Pieces((4,), (4, 4), (before,)))
            with self.assertRaisesRegex(RuntimeError, "redistributing to Partial is for internal use only"):
                tensor.redistribute(placements=(Partial(),))
        pieces = Pieces((4,), (4, 4), (Partial(),))
        stays = self.laid(pieces).redistribute(placements=(Partial(),))
        self.assertEqual(stays.to_local(), self.on_each(pieces.of))

    @with_comms
    def test_distribute_tensor(self):
        # Rank 0's array counts: the others have something else.
        whole = small_numbers(0, (7, 6))
        everywhere = self.on_each(lambda rank: whole + rank)
        for placements in itertools.product(KINDS, repeat=2):
            tensor = distribute_tensor(everywhere, self.mesh(2, 2), placements)
            self.check_lies(tensor, whole, placements, str(placements))


in_rank_modes(globals(), Redistribute)

if __name__ == "__main__":
    run_tests()
