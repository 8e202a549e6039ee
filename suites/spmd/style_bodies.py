"""``StyleBodies``: parts of a whole and models that differ by rank, for parallel styles and plans."""

from __future__ import annotations

import torch

from suites.spmd.dtensor_base import RANKS, Bodies
from suites.spmd.sharding_model import cut


class StyleBodies(Bodies):
    """A whole, the part of it that a rank has, and models that differ by rank."""

    def part(self, whole, placement):
        return self.tensor(cut(whole, self.rank, (RANKS,), [placement]))

    def seeded(self, make, seed=None):
        """What ``make`` draws, on this rank or on the one whose number is the seed."""
        torch.manual_seed(self.rank if seed is None else seed)
        return make().to(self.device_type)
