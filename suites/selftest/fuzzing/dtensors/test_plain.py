"""Tests the reference runs: gradients, what depends on rounding, and what is taken back."""

from __future__ import annotations

import unittest

import torch

from harness.fuzzing.dtensors.plain import (
    Twins,
    can_run_backward,
    inputs_of,
    is_moderate,
    near,
    outcome,
    placements_of,
)
from harness.fuzzing.dtensors.program import DTensorProgram, Input, Statement

LEAF = Input((3, 2), ("Replicate()",), grad=True)
PLAIN = Input((3, 2), ("Replicate()",))


def program(*statements: Statement, inputs: tuple[Input, ...] = (LEAF,)) -> DTensorProgram:
    """A program with a backward."""
    return DTensorProgram((2,), inputs, statements, backward=True)


class PlainTest(unittest.TestCase):
    def test_outcome(self) -> None:
        """The loss is the sum of squares of all values with a gradient; a redistribution changes nothing."""
        values, (gradient,) = outcome(program(Statement("{0} * 3", (0,)), Statement("", (1,), ("Shard(0)",))))
        self.assertTrue(torch.equal(values[1], values[2]))
        torch.testing.assert_close(gradient, 2 * values[0].detach() * (1 + 9 + 9))

    def test_rounding(self) -> None:
        """A statement whose result jumps where its operand changes a little is not accepted."""
        twins = Twins((PLAIN,))
        self.assertTrue(twins.accept(Statement("{0} - {0}", (0,)), 100))
        self.assertTrue(twins.accept(Statement("{0} > 0.3", (0,)), 100))
        self.assertFalse(twins.accept(Statement("torch.floor({0} * 32)", (0,)), 100))

    def test_what_fails_is_taken_back(self) -> None:
        """A write that fails leaves the values as they were, and so does a result that is too large."""
        twins = Twins((PLAIN, Input((2, 3), ("Replicate()",))))
        before = twins.values[0].clone()
        self.assertFalse(twins.accept(Statement("torch._foreach_add_([{0}, {1}], [{0}, {0}])[0]", (0, 1)), 9))
        self.assertFalse(twins.accept(Statement("{0}.mul_(1e9)", (0,)), 9))
        self.assertFalse(twins.accept(Statement("torch.outer({0}[0], {0}[1])", (0,)), 3))
        self.assertTrue(torch.equal(twins.values[0], before))

    def test_what_cannot_be_looked_at(self) -> None:
        """Of a base that was written to, one of several views is made, but torch refuses to use it."""
        twins = Twins((LEAF,))
        self.assertTrue(twins.accept(Statement("{0} * 1", (0,)), 9))
        self.assertFalse(twins.accept(Statement("({0}.split(1)[0], {0}.mul_(2))[0]", (1,)), 9))
        self.assertEqual(len(twins.values), 2)

    def test_write_to_what_is_redistributed(self) -> None:
        """It is not accepted, also once values were made anew: DTensors may not share what plain ones do."""
        twins = Twins((PLAIN,))
        self.assertTrue(twins.accept(Statement("{0} + 1", (0,)), 9))
        self.assertTrue(twins.accept(Statement("", (1,), ("Shard(0)",)), 9))
        self.assertFalse(twins.accept(Statement("{0}.mul_(1e9)", (0,)), 9), "too large: values are made anew")
        for operand, accepted in ((1, False), (2, False), (0, True)):
            with self.subTest(operand=operand):
                self.assertIs(twins.accept(Statement("{0}.zero_()", (operand,)), 9), accepted)

    def test_shards_of_no_dimension(self) -> None:
        """A redistribution to shards of a dimension that the value has not is not accepted."""
        twins = Twins((PLAIN,))
        self.assertTrue(twins.accept(Statement("{0}.sum()", (0,)), 9))
        self.assertFalse(twins.accept(Statement("", (1,), ("Shard(0)",)), 9))
        self.assertTrue(twins.accept(Statement("", (0,), ("Shard(1)",)), 9))

    def test_reshape_of_nothing(self) -> None:
        """Reshapes of empty tensors, on which DTensor loops without end, are not accepted."""
        twins = Twins((Input((4, 0), ("Shard(0)",)),))
        self.assertFalse(twins.accept(Statement("{0}.reshape(-1, 2)", (0,)), 9))
        self.assertTrue(twins.accept(Statement("{0}.t()", (0,)), 9))

    def test_backward(self) -> None:
        """A backward that fails, or of which a gradient depends on rounding, is none."""
        self.assertTrue(can_run_backward(program(Statement("torch.sin({0})", (0,)))))
        written = (Statement("{0} * {0}", (0,)), Statement("{0} * {0}", (1,)), Statement("{0}.zero_()", (1,)))
        self.assertFalse(can_run_backward(program(*written)))
        kink = Statement("torch.abs({0} + 105 / 32) + 1", (0,))  # -105 / 32 is the first number
        self.assertTrue(Twins((LEAF,)).accept(kink, 100))
        self.assertFalse(can_run_backward(program(kink)))

    def test_values(self) -> None:
        """Inputs are leaves with a gradient where asked; NaN and large numbers are not moderate."""
        leaf, plain = inputs_of((LEAF, PLAIN))
        self.assertTrue(leaf.is_leaf and leaf.requires_grad and not plain.requires_grad)
        for number, fine in ((1.0, True), (float("nan"), False), (1e9, False), (1j, False)):
            self.assertEqual(is_moderate(torch.tensor([number])), fine, number)
        self.assertTrue(near(None, None))
        self.assertFalse(near(None, plain))
        self.assertEqual(str(placements_of(["Shard(1)", "Partial('max')"])), "[Shard(dim=1), Partial(max)]")


if __name__ == "__main__":
    unittest.main()
