"""Tests the nested models on a group of one; ``cases/test_fsdp_parity.py`` trains them on ranks."""

from __future__ import annotations

import unittest
from typing import Any

import torch

import harness
from harness import DEVICEInitMode, DummyProcessGroup, FSDPInitMode

AFTER, PLAIN = DEVICEInitMode.DEVICE_AFTER, FSDPInitMode.NO_FSDP


class PlainTest(unittest.TestCase):
    """Models without FSDP."""

    group: Any = DummyProcessGroup(0, 1)

    def test_deterministic(self) -> None:
        for name in ("NestedWrappedModule", "AlwaysWrapNestedWrappedModule", "NonUniformReqGradNWM"):
            with self.subTest(name):
                first, second = (
                    getattr(harness, name).init(self.group, PLAIN, AFTER, deterministic=True)
                    for _ in range(2)
                )
                x = first.get_input(torch.device("cpu"))
                torch.testing.assert_close(first(*x), second(*x))

    def test_one_trained_layer(self) -> None:
        model = harness.NonUniformReqGradNWM.init(self.group, PLAIN, AFTER)
        trained = [name for name, p in model.named_parameters() if p.requires_grad]
        self.assertEqual(trained, ["module.2.1.weight", "module.2.1.bias"])

    def test_wrong_mode(self) -> None:
        wrong: Any = True
        with self.assertRaisesRegex(ValueError, "FSDPInitMode"):
            harness.NestedWrappedModule.init(self.group, wrong, AFTER)


if __name__ == "__main__":
    unittest.main()
