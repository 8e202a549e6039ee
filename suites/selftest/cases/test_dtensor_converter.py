"""Tests which shardings ``DTensorConverter`` offers, and which values it leaves alone."""

from __future__ import annotations

import unittest
from collections.abc import Iterable
from typing import Any

import torch
from torch.distributed.tensor import Replicate, Shard, init_device_mesh

from harness import UsageError
from harness.cases.dtensor_converter import DTensorConverter
from harness.ranks.local import rank


class ConverterTest(unittest.TestCase):
    """The shardings on a mesh of four that has no peers."""

    def setUp(self) -> None:
        rank.init_group(4)
        self.addCleanup(torch.distributed.destroy_process_group)
        self.mesh = init_device_mesh("cpu", (4,))

    def placements(self, *args: Any, **kwargs: Any) -> list[tuple[Any, ...]]:
        """Returns the placements of every step."""
        steps: Iterable[Any] = DTensorConverter(self.mesh, args, kwargs)
        return [tuple(t.placements[0] for t in (*a, *k.values())) for a, k in steps]

    def test_choices(self) -> None:
        """Tensors are replicated, or sharded if four divides the size; booleans and scalars never shard."""
        table: tuple[tuple[torch.Tensor, list[Any]], ...] = (
            (torch.ones(8, 6), [Replicate(), Shard(0)]),
            (torch.ones(4, 8), [Replicate(), Shard(0), Shard(1)]),
            (torch.ones(3, 1), [Replicate()]),
            (torch.ones(8, dtype=torch.bool), [Replicate()]),
            (torch.tensor(1.0), [Replicate()]),
        )
        for tensor, choices in table:
            with self.subTest(shape=tensor.shape, dtype=tensor.dtype):
                self.assertEqual(self.placements(tensor), [(c,) for c in choices])

    def test_combinations(self) -> None:
        """Every combination comes, the last tensor's choices fastest, with keyword arguments last."""
        r, s = Replicate(), Shard(0)
        found = self.placements(torch.ones(4), other=torch.ones(8))
        self.assertEqual(found, [(r, r), (r, s), (s, r), (s, s)])

    def test_replicate_only(self) -> None:
        """With replicate_only there is one step."""
        steps = DTensorConverter(self.mesh, (torch.ones(4),), {}, replicate_only=True)
        self.assertEqual(len(list(steps)), 1)
        self.assertTrue(steps.successful())

    def test_structure_and_other_arguments_stay(self) -> None:
        """Lists stay lists, other values stay as they are, and a parameter stays a parameter."""
        weight = torch.nn.Parameter(torch.ones(3), requires_grad=False)
        steps = DTensorConverter(self.mesh, ([weight, 5],), {"mode": "sum"})
        ((args, kwargs),) = steps
        self.assertIsInstance(args[0], list)
        self.assertIsInstance(args[0][0], torch.nn.Parameter)  # type: ignore[index]  # a list, by the line above
        self.assertFalse(args[0][0].requires_grad)  # type: ignore[index]  # as above
        self.assertEqual((args[0][1], kwargs), (5, {"mode": "sum"}))  # type: ignore[index]  # as above

    def test_what_cannot_be_distributed(self) -> None:
        """A tensor that cannot be distributed stays as it is and is counted, and other values are refused."""
        for tensor in (torch.ones(4).to_sparse(), torch.ones(4, device="meta")):
            with self.subTest(tensor=tensor):
                steps = DTensorConverter(self.mesh, (tensor, torch.ones(3)), {})
                args, _ = next(steps)
                self.assertIs(args[0], tensor)
                self.assertEqual((steps.hit, steps.miss, steps.successful()), (1, 1, False))
        with self.assertRaisesRegex(UsageError, "only a tensor can be distributed, not str"):
            DTensorConverter(self.mesh, (), {}).to_dist_tensor("x", self.mesh, [Replicate()])


if __name__ == "__main__":
    unittest.main()
