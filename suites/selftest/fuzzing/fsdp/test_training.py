"""Tests the reference by hand, and what a rank has of a whole tensor."""

from __future__ import annotations

import unittest
from typing import Any

import torch

from harness.fuzzing.blocks import model_source
from harness.fuzzing.fsdp.training import LIMIT, NORM, shard_of, without_fsdp
from harness.fuzzing.training import State, backward, batch, made, model_of

MODEL = model_of(model_source(("buffer",)))


def states(step: tuple[int, str, bool, bool, str, bool], **options: Any) -> list[State]:
    """The states of two ranks after one step."""
    return next(without_fsdp(MODEL, 2, options, [step], "sgd"))


def by_hand() -> torch.Tensor | None:
    """The mean of two ranks' gradients of one batch."""
    grads = []
    for rank in range(2):
        module = made(MODEL)
        backward(module, batch(rank, 0, 0))
        grads.append(module.get_parameter("first.weight").grad)
    return sum(grads) / 2


class TrainingTest(unittest.TestCase):
    def test_mean_of_ranks(self) -> None:
        found, _ = states((1, "once", False, False, "", False))
        torch.testing.assert_close(found["gradient of first.weight"], by_hand())

    def test_buffers_of_ranks(self) -> None:
        """Each rank goes on with its own buffers."""
        for rank, found in enumerate(states((1, "once", False, False, "", False))):
            h = made(MODEL).get_submodule("first")(batch(rank, 0, 0))
            torch.testing.assert_close(found["buffer buffer0"], h.detach().mean(0))

    def test_clips(self) -> None:
        found, _ = states((1, "once", False, False, "", True))
        grads = [value for name, value in found.items() if name.startswith("gradient") and value is not None]
        self.assertAlmostEqual(float(torch.nn.utils.get_total_norm(grads)), LIMIT, places=4)
        before, _ = states((1, "once", False, False, "", False))
        grads = [v for name, v in before.items() if name.startswith("gradient") and v is not None]
        torch.testing.assert_close(found[NORM], torch.nn.utils.get_total_norm(grads))

    def test_single(self) -> None:
        found, _ = states((1, "once", False, False, "", True), single=True)
        self.assertEqual({each.dtype for each in found.values() if each is not None}, {torch.float32})

    def test_shards(self) -> None:
        """Three rows of three ranks' four: the last rank has none of what does not reach it."""
        rows = torch.arange(12.0).reshape(4, 3)
        self.assertEqual([len(part(rows, rank)) for rank in range(3)], [2, 2, 0])
        torch.testing.assert_close(shard_of(rows, True, 1, 3), rows[:, 1:2])
        self.assertIsNone(shard_of(None, False, 0, 3))


def part(whole: torch.Tensor, rank: int) -> torch.Tensor:
    """A rank's rows, of three ranks."""
    found = shard_of(whole, False, rank, 3)
    assert found is not None
    return found


if __name__ == "__main__":
    unittest.main()
