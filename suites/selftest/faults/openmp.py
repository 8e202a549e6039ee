"""A parent that has used torch's thread pools before its first multi-rank test; run in its own process."""

from __future__ import annotations

import torch

from suites.selftest.faults.base import FaultyCase


class AfterOpenMP(FaultyCase):
    """A child forked from a process with a live pool would wait for threads that it does not have."""

    def setUp(self) -> None:
        super().setUp()
        torch.set_num_threads(2)
        weight = torch.randn(512, 512, requires_grad=True)
        (weight @ weight).sum().backward()

    def test_use_the_pools(self) -> None:
        """The same in each rank, with two threads."""
        torch.set_num_threads(2)
        weight = torch.randn(512, 512, requires_grad=True)
        (weight @ weight).sum().backward()
        self.assertIsNotNone(weight.grad)
