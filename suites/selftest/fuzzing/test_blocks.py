"""Tests that every block makes a module that can be trained, and has gradients as it says."""

from __future__ import annotations

import unittest

import torch

from harness.fuzzing.blocks import BLOCKS
from harness.fuzzing.ddp.program import DdpProgram, Step
from harness.fuzzing.training import backward, batch, made, model_of


def lacks_gradients(name: str) -> bool:
    """Whether a parameter of a module with this block has no gradient after some batch."""
    program = DdpProgram(2, (name, name), (("find_unused_parameters", True),), (Step(),))
    lacking = False
    for rank in range(4):
        module = made(model_of(program.source))
        backward(module, batch(rank, 0, 0))
        lacking |= any(each.grad is None and each.requires_grad for each in module.parameters())
    return lacking


class BlocksTest(unittest.TestCase):
    def test_gradients(self) -> None:
        """All parameters that can have a gradient have one, but those of blocks that say otherwise."""
        for name, block in BLOCKS.items():
            with self.subTest(name):
                self.assertEqual(lacks_gradients(name), block.unused)

    def test_batches_differ(self) -> None:
        """Both branches of blocks that vary are taken by some rank."""
        sums = {bool(batch(rank, step, 0).sum() > 0) for rank in range(2) for step in range(3)}
        self.assertEqual(sums, {True, False})
        self.assertEqual({bool(batch(rank, 0, 0)[0, 0] > 0) for rank in range(3)}, {True, False})
        self.assertEqual(batch(0, 0, 0).dtype, torch.float64)


if __name__ == "__main__":
    unittest.main()
