"""Tests where a model with delays keeps the device busy; ``cases/test_fsdp_parity.py`` trains it on ranks."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor

from harness import DummyProcessGroup, FSDPInitMode, ModuleWithDelay
from harness import NestedWrappedModuleWithDelay as Nested
from harness.models import fsdp_delays
from harness.models.fsdp import reduce_scatter_name


class DelaysTest(unittest.TestCase):
    """The delays, noted in place of being waited for."""

    def setUp(self) -> None:
        self.delays: list[float] = []
        patch = mock.patch.object(fsdp_delays, "delay", self.delays.append)
        patch.start()
        self.addCleanup(patch.stop)

    def test_after_the_loss(self) -> None:
        group: Any = DummyProcessGroup(0, 1)
        model: Any = Nested.init(group, FSDPInitMode.NO_FSDP, delay_after_loss_ms=7)
        x = model.get_input(torch.device("cpu"))
        model.get_loss(x, model(*x))
        self.assertEqual(self.delays, [7])

    def test_before_each_reduction(self) -> None:
        """The function that FSDP reduces by is delayed in the backward, and its own again afterwards."""

        def run_backward(loss: Tensor) -> None:
            getattr(dist, reduce_scatter_name())()

        inner: Any = mock.Mock(run_backward=run_backward)
        with mock.patch.object(dist, reduce_scatter_name()) as reduces:
            ModuleWithDelay(inner, 0, 9).run_backward(torch.zeros(()))
            self.assertEqual((self.delays, reduces.call_count), ([9], 1))
            self.assertIs(getattr(dist, reduce_scatter_name()), reduces)


if __name__ == "__main__":
    unittest.main()
