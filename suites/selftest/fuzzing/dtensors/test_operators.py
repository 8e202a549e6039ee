"""Tests the table of operators: that each can be drawn, and how many operands it has."""

from __future__ import annotations

import itertools
import unittest

import torch

from harness.fuzzing.dtensors.operators import ALL, operand_count, written_count
from harness.fuzzing.dtensors.plain import quiet

#: Tensors of which some fit each operator.
FITTING = (
    torch.arange(4.0) + 1,
    torch.arange(2.0) + 1,
    torch.arange(8.0).reshape(2, 4) + 1,
    torch.arange(16.0).reshape(4, 4) + 1,
    torch.arange(8.0).reshape(2, 2, 2) + 1,
    torch.arange(4.0).reshape(2, 2) + 1,
    torch.tensor([1, 0]),
)


class OperatorsTest(unittest.TestCase):
    def test_each_fits_some_tensors(self) -> None:
        """A template that nothing fits would never be drawn."""
        for template in ALL:
            with self.subTest(template):
                operands = itertools.product(FITTING, repeat=operand_count(template))
                self.assertTrue(any(runs(template, each) for each in operands))

    def test_operand_count(self) -> None:
        """The count is that of the operands, not of their uses."""
        for template, count in (("-{0}", 1), ("{0} * {0}", 1), ("{0} @ {1}", 2), ("f({0}, {1}, {2})", 3)):
            self.assertEqual(operand_count(template), count, template)

    def test_written_count(self) -> None:
        """The operands whose version has changed are those that are said to be written to."""
        for template in ALL:
            all_operands = itertools.product(FITTING, repeat=operand_count(template))
            fitting = next(each for each in all_operands if runs(template, each))
            own = {f"x{number}": each.clone() for number, each in enumerate(fitting)}
            with quiet():
                eval(template.format(*own), {"torch": torch}, own)
            count = written_count(template)
            found = [each._version > 0 for each in own.values()]
            self.assertEqual(found, [number < count for number in range(len(own))], template)

    def test_no_duplicates(self) -> None:
        self.assertEqual(len(ALL), len(set(ALL)))


def runs(template: str, operands: tuple[torch.Tensor, ...]) -> bool:
    """Whether plain tensors can run a template."""
    names = {f"x{number}": each.clone() for number, each in enumerate(operands)}
    try:
        with quiet():
            return isinstance(eval(template.format(*names), {"torch": torch}, names), torch.Tensor)
    except (RuntimeError, IndexError, TypeError, ValueError):
        return False


if __name__ == "__main__":
    unittest.main()
