"""Tests how models for FSDP1's tests are wrapped and placed, and by which functions FSDP communicates."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn

from harness import DEVICEInitMode
from harness.models import fsdp


class PlacementTest(unittest.TestCase):
    """The accelerator is the meta device here, which every machine has."""

    def test_moves(self) -> None:
        """A model moves after it was wrapped only in that mode."""
        for mode in DEVICEInitMode:
            with self.subTest(mode), mock.patch.object(fsdp, "probe") as probe:
                probe().accelerator.return_value = ("meta", 1)
                device = fsdp.moved_after(nn.Linear(1, 1), mode).weight.device
                self.assertEqual(device.type, "meta" if mode is DEVICEInitMode.DEVICE_AFTER else "cpu")

    def test_wrapped(self) -> None:
        """FSDP1 is told to take the CPU where there is no accelerator, unless the options say another."""
        wanted: dict[str, Any] = {"device_id": torch.device("meta")}
        for options, expected in (({}, {"device_id": torch.device("cpu")}), (wanted, wanted)):
            with self.subTest(options), mock.patch.object(fsdp, "FullyShardedDataParallel") as wrapper:
                with mock.patch.object(fsdp, "probe") as probe:
                    probe().accelerator.return_value = ("cpu", 1)
                    fsdp.in_fsdp(nn.Linear(1, 1), **options)
                self.assertEqual(wrapper.call_args.kwargs, expected)


class FunctionsTest(unittest.TestCase):
    """The functions by which FSDP communicates."""

    def test_exist(self) -> None:
        """This release has them."""
        for name in (fsdp.reduce_scatter_name(), fsdp.all_gather_name()):
            self.assertTrue(callable(getattr(dist, name)))


if __name__ == "__main__":
    unittest.main()
