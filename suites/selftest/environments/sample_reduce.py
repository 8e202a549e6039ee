"""The test module for environments that concern torch: the ranks of ``sample.py`` all-reduce."""

from __future__ import annotations

import torch
import torch.distributed as dist

from harness import DistributedTestBase, MultiProcContinuousTest


class Fresh(DistributedTestBase):
    """Tests on new ranks."""

    world_size = 2

    def test_passes(self) -> None:
        """The sum is right on both ranks."""
        self.create_pg("cpu")
        self.assertEqual(_sum_of_ranks(self.rank), 1)

    def test_fails(self) -> None:
        """The sum is right, and rank 1 fails."""
        self.test_passes()
        self.assertEqual(self.rank, 0, "rank one is wrong")


class Kept(MultiProcContinuousTest):
    """Tests on ranks that are kept."""

    world_size = 2

    @classmethod
    def backend_str(cls) -> str:
        """Returns the backend of the CPU."""
        return "gloo"

    def test_first(self) -> None:
        """The sum is right on both ranks."""
        self.assertEqual(_sum_of_ranks(self.rank), 1)

    def test_second(self) -> None:
        """The sum is right again."""
        self.assertEqual(_sum_of_ranks(self.rank), 1)


def _sum_of_ranks(rank: int) -> int:
    tensor = torch.tensor([rank])
    dist.all_reduce(tensor)
    return int(tensor.item())
