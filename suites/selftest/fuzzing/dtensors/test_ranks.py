"""Tests where programs run: what a rank holds, and that a played group ends."""

from __future__ import annotations

import unittest

import torch
import torch.distributed as dist
from torch.distributed.tensor import Partial, Shard

from harness.fuzzing.dtensors.placing import numbers
from harness.fuzzing.dtensors.ranks import OneRank, played
from harness.ranks.local import rank as local

WHOLE = numbers((5,), torch.float64, 0)


class RanksTest(unittest.TestCase):
    def test_played(self) -> None:
        """Each rank holds its part, DTensor finds the whole, and no group is left behind."""
        with played(3) as ranks:
            mesh = ranks.mesh((3,))
            self.assertIs(ranks.mesh((3,)), mesh)
            with ranks.plain():
                whole = numbers((5,), torch.float64, 0)
            placed = ranks.placed(whole, mesh, [Shard(0)])
            parts = {rank: each.tolist() for rank, each in ranks.held(placed.to_local()).items()}
            wholes = {rank: each.tolist() for rank, each in ranks.held(placed.full_tensor()).items()}
        self.assertEqual(parts, {0: WHOLE[:2].tolist(), 1: WHOLE[2:4].tolist(), 2: WHOLE[4:].tolist()})
        self.assertEqual(wholes, dict.fromkeys(range(3), WHOLE.tolist()))
        self.assertFalse(dist.is_initialized())

    def test_one_rank(self) -> None:
        """A rank of a process group holds its own part."""
        local.init_group(2, rank=1)
        self.addCleanup(dist.destroy_process_group)
        ranks = OneRank(1)
        mesh = ranks.mesh((2,))
        self.assertIs(ranks.mesh((2,)), mesh)
        placed = ranks.placed(WHOLE.clone().requires_grad_(), mesh, [Partial()])
        self.assertTrue(placed.requires_grad and placed.is_leaf)
        with ranks.plain():
            ((rank, part),) = ranks.held(placed.to_local()).items()
        self.assertEqual((rank, part.tolist()), (1, [1.0] * 5))


if __name__ == "__main__":
    unittest.main()
