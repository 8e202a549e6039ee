"""Tests overrides: the modules that they are offered, and their replacements."""

from __future__ import annotations

import unittest
from typing import Any

from torch import nn

from harness.errors import UsageError
from harness.graphs.train_step.overrides import replace_modules
from suites.selftest.graphs.train_step.recorded_override import Recorded, relu_to_tanh


def nested() -> nn.Module:
    """A module with three levels of children."""
    return nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(3, 2), nn.ReLU())))


class ReplaceTest(unittest.TestCase):
    """Which modules overrides are offered, and how they are replaced."""

    def test_offered_from_outside_in(self) -> None:
        override = Recorded()
        replace_modules(nested(), [override])
        self.assertEqual(override.asked, ["0", "1", "1.0", "1.1", "1.1.0", "1.1.1"])

    def test_replaced_for_good(self) -> None:
        module = nested()
        replace_modules(module, [Recorded(relu_to_tanh)])
        kinds = [type(each).__name__ for each in module.modules()]
        self.assertEqual(
            kinds, ["Sequential", "Linear", "Sequential", "Tanh", "Sequential", "Linear", "Tanh"]
        )

    def test_not_asked_about_a_replacement(self) -> None:
        def wrap(module: Any) -> Any:
            return nn.Sequential(module) if isinstance(module, nn.ReLU) else module

        module, override = nested(), Recorded(wrap)
        replace_modules(module, [override])
        self.assertEqual(override.asked, ["0", "1", "1.0", "1.1", "1.1.0", "1.1.1"])
        self.assertIsInstance(module[1][0][0], nn.ReLU)

    def test_first_override_wins(self) -> None:
        module, second = nn.Sequential(nn.ReLU(), nn.Linear(1, 1)), Recorded(lambda module: nn.Identity())
        replace_modules(module, [Recorded(relu_to_tanh), second])
        self.assertEqual(second.asked, ["1"])
        self.assertEqual([type(each) for each in module], [nn.Tanh, nn.Identity])

    def test_no_module(self) -> None:
        with self.assertRaisesRegex(UsageError, "Recorded.replacement returned a NoneType for '0'"):
            replace_modules(nested(), [Recorded(lambda module: None)])


if __name__ == "__main__":
    unittest.main()
