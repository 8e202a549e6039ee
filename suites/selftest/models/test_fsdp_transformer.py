"""Tests ``TransformerWithSharedParams`` by itself; ``cases/test_fsdp_parity.py`` trains it on ranks."""

from __future__ import annotations

import unittest
from typing import Any

import torch

from harness import DEVICEInitMode, DummyProcessGroup, FSDPInitMode, TransformerWithSharedParams


class PlainTest(unittest.TestCase):
    """The model without FSDP."""

    def test_step(self) -> None:
        """Its parameter is shared, and a backward reaches it."""
        group: Any = DummyProcessGroup(0, 1)
        mode = FSDPInitMode.NO_FSDP
        model = TransformerWithSharedParams.init(group, mode, DEVICEInitMode.DEVICE_NEVER, deterministic=True)
        self.assertIs(model.output_proj.weight, model.embed_tokens.weight)
        given = model.get_input(torch.device("cpu"))
        output = model(*given)
        self.assertEqual(output.shape, (4, 2, 23))
        model.run_backward(model.get_loss(given, output))
        self.assertTrue(model.embed_tokens.weight.grad.any())
        self.assertEqual(model.get_ignored_modules(), [model.transformer])


if __name__ == "__main__":
    unittest.main()
