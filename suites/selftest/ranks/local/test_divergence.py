"""Tests comparisons on local tensors whose answers differ by rank: which are refused or allowed."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import init_device_mesh

from harness import UsageError
from harness.ranks.local import rank as local


class Asked(unittest.TestCase):
    """Base class: four simulated ranks in one process."""

    def setUp(self) -> None:
        local.init_group(4)
        self.addCleanup(dist.destroy_process_group)

    def asks(self, question: Callable[..., Any]) -> object:
        """Returns the answer to ``question(rank, tensor)``, or its error; the tensor holds each rank's
        number.
        """
        with local.simulation(4):
            rank = local.rank_of(4)
            tensor = local.on_each_rank(lambda own: torch.tensor([float(own)]), rank)
            try:
                return question(rank, tensor)
            except (UsageError, AssertionError) as error:
                return error


class RankTest(Asked):
    """Comparisons of ranks, however a test gets the rank."""

    def test_answers_that_differ(self) -> None:
        """A comparison that differs by rank is refused: a branch on it would suit only some ranks."""
        for question in (
            lambda rank, _: rank == 0,
            lambda rank, _: rank != 3,
            lambda rank, _: rank < 1,
            lambda rank, _: rank <= 1,
            lambda rank, _: rank < 2,
            lambda rank, _: rank <= 2,
            lambda rank, _: rank == rank * rank,
            lambda rank, _: rank in (0, 1),
            lambda _, __: dist.get_rank() == 0,
            lambda _, __: dist.get_rank(dist.group.WORLD) == 0,
            lambda _, __: init_device_mesh("cpu", (4,)).get_rank() == 2,
            lambda _, __: init_device_mesh("cpu", (2, 2)).get_local_rank(1) == 1,
        ):
            said = self.asks(question)
            self.assertIsInstance(said, UsageError)
            self.assertIn("map_local_for_rank", str(said))

    def test_who_answers_what(self) -> None:
        said = self.asks(lambda rank, _: rank in (1, 7))
        self.assertRegex(
            str(said), r"^a comparison with a rank is True on rank 1 and False on ranks 0, 2, 3, "
        )

    def test_answers_that_agree(self) -> None:
        for question, answer in (
            (lambda rank, _: rank == -1, False),
            (lambda rank, _: rank != 4, True),
            (lambda rank, _: rank < 4, True),
            (lambda rank, _: rank >= 1 - 1, True),
            (lambda rank, _: rank > 3, False),
            (lambda rank, _: rank == rank, True),
            (lambda rank, _: rank < rank + 1, True),
            (lambda _, __: dist.get_rank() <= 3, True),
            (lambda _, __: init_device_mesh("cpu", (4,)).get_local_rank() == 5, False),
        ):
            self.assertEqual(self.asks(question), answer)

    def test_rank_as_a_number(self) -> None:
        """A number computed from the rank differs on each rank."""
        parts = self.asks(lambda rank, _: local.by_rank(10 * dist.get_rank() + rank % 2))
        self.assertEqual(parts, [(0, 0), (1, 11), (2, 20), (3, 31)])

    def test_region_ends(self) -> None:
        self.asks(lambda rank, _: None)
        self.assertEqual(dist.get_rank(), 0)
        with local.simulation(4), local.outside():
            self.assertEqual(dist.get_rank(), 0)


class TruthTest(Asked):
    """Comparisons of tensors that would have one answer in each process."""

    def test_answers_that_differ(self) -> None:
        two = torch.tensor([2.0])
        for question in (
            lambda _, x: torch.equal(x, two),
            lambda _, x: torch.allclose(x, two),
            lambda _, x: bool((x == two).all()),
            lambda _, x: (x < two).item(),
        ):
            said = self.asks(question)
            self.assertIsInstance(said, AssertionError)
            self.assertRegex(str(said), "^a truth value is True on rank")

    def test_answers_that_agree(self) -> None:
        for question, answer in (
            (lambda _, x: torch.equal(x, torch.tensor([4.0])), False),
            (lambda _, x: bool((x < 4).all()), True),
            (lambda _, x: torch.allclose(x, x.clone()), True),
        ):
            self.assertIs(self.asks(question), answer)


if __name__ == "__main__":
    unittest.main()
