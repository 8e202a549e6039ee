"""Tests the model with experts on a group of one; ``cases/test_fsdp_parity.py`` trains it on ranks."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import torch

import harness
from harness import DEVICEInitMode, DummyProcessGroup, FSDPInitMode


class PlainTest(unittest.TestCase):
    """The model without FSDP."""

    group: Any = DummyProcessGroup(0, 1)

    def setUp(self) -> None:
        self.model: Any = harness.MixtureOfExperts.init(
            self.group, FSDPInitMode.NO_FSDP, DEVICEInitMode.DEVICE_AFTER, deterministic=True
        )

    def test_experts(self) -> None:
        marked = sum(p.numel() for p in self.model.parameters() if hasattr(p, "expert"))
        self.assertEqual(marked, self.model.num_expert_params)

    def test_experts_are_not_reduced(self) -> None:
        """Gradients of all parameters but the expert's are reduced after the backward."""
        x = self.model.get_input(torch.device("cpu"))
        with mock.patch("torch.distributed.all_reduce") as reduce:
            self.model.run_backward(self.model.get_loss(x, self.model(*x)))
        reduced = [id(call.args[0]) for call in reduce.call_args_list]
        shared = [p for p in self.model.parameters() if not hasattr(p, "expert")]
        self.assertEqual(reduced, [id(p.grad) for p in shared])


if __name__ == "__main__":
    unittest.main()
