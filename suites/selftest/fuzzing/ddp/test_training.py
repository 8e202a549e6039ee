"""Tests the two runs that are compared: the reference by hand."""

from __future__ import annotations

import unittest

import torch

from harness.fuzzing.ddp.training import without_ddp
from harness.fuzzing.training import backward, batch, made, model_of

PLAIN = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4, dtype=torch.float64)
        self.register_buffer("seen", torch.zeros(4, dtype=torch.float64))

    def forward(self, x):
        self.seen.add_(x.detach().mean(0))
        return self.first(x), []
"""
MODEL = model_of(PLAIN)


class TrainingTest(unittest.TestCase):
    def test_mean_of_ranks(self) -> None:
        """The gradients are those of the mean of all ranks' losses, over all batches of a step."""
        (first, *_), *_ = without_ddp(MODEL, 2, {}, [(2, False, False)], joins=False)
        module = made(MODEL)
        for rank in range(2):
            for number in range(2):
                backward(module, batch(rank, 0, number), 0.5)
        expected = module.get_parameter("first.weight").grad
        torch.testing.assert_close(first["gradient of first.weight"], expected)

    def test_buffers(self) -> None:
        """Ranks begin a call with rank 0's buffers, or with their own where they are not broadcast."""
        for broadcasts in (True, False):
            with self.subTest(broadcasts=broadcasts):
                options = {"broadcast_buffers": broadcasts}
                *_, last = without_ddp(MODEL, 2, options, [(1, False, False)] * 2, joins=False)
                start = batch(0, 0, 0) if broadcasts else batch(1, 0, 0)
                expected = start.mean(0) + batch(1, 1, 0).mean(0)
                torch.testing.assert_close(last[1]["buffer seen"], expected)

    def test_joined_rank(self) -> None:
        """A rank that has joined adds nothing to the last step."""
        *_, last = without_ddp(MODEL, 2, {}, [(1, False, False)], joins=True)
        module = made(MODEL)
        backward(module, batch(1, 0, 0), 0.5)
        torch.testing.assert_close(
            last[1]["gradient of first.weight"], module.get_parameter("first.weight").grad
        )


if __name__ == "__main__":
    unittest.main()
