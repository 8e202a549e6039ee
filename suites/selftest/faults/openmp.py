"""A case whose parent has used torch's thread pools before it starts ranks; run it in its own process."""

from __future__ import annotations

import torch

from suites.selftest.faults.base import FaultyCase


class AfterOpenMP(FaultyCase):
    """Its parent has live pools, and a child forked from it would wait for threads that it does not have."""

    def setUp(self) -> None:
        super().setUp()
        torch.set_num_threads(2)
        weight = torch.randn(512, 512, requires_grad=True)
        (weight @ weight).sum().backward()

    def test_use_the_pools(self) -> None:
        """Each rank can run a backward pass with two threads."""
        torch.set_num_threads(2)
        weight = torch.randn(512, 512, requires_grad=True)
        (weight @ weight).sum().backward()
        self.assertIsNotNone(weight.grad)
