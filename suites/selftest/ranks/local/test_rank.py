"""Tests what the one process that plays every rank of a test has instead of ranks."""

from __future__ import annotations

import contextlib
import unittest

import torch
import torch.distributed as dist
from torch.autograd.profiler import profile, record_function

from harness.ranks.local import rank as local


class SimulationTest(unittest.TestCase):
    """What the one process has instead of ranks."""

    def setUp(self) -> None:
        local.init_group(3)
        self.addCleanup(dist.destroy_process_group)

    def test_rank(self) -> None:
        """A simulated rank is recognised, also with a world size of 1, and never equals the parent's -1."""
        self.assertTrue(local.is_simulated(local.rank_of(3)))
        self.assertTrue(local.is_simulated(local.rank_of(1)))
        self.assertFalse(local.rank_of(3) == -1)
        self.assertFalse(local.is_simulated(0))

    def test_collective(self) -> None:
        """A collective computes with the values of all simulated ranks."""
        with local.simulation(3):
            value = local.on_each_rank(lambda rank: torch.tensor([float(rank)]), local.rank_of(3))
            dist.all_reduce(value)
            parts = local.by_rank(value)
        assert parts is not None
        self.assertEqual([(rank, part.tolist()) for rank, part in parts], [(r, [3.0]) for r in range(3)])

    def test_by_rank(self) -> None:
        """by_rank splits nested values by rank, and returns None for what is the same on every rank."""
        with local.simulation(3):
            value = local.on_each_rank(lambda rank: torch.full((rank + 1,), 1.0), local.rank_of(3))
        parts = local.by_rank({"a": [value, 5], "b": local.rank_of(3)})
        assert parts is not None
        self.assertEqual(
            [(r, p["a"][0].tolist(), p["a"][1], p["b"]) for r, p in parts],
            [(r, [1.0] * (r + 1), 5, r) for r in range(3)],
        )
        self.assertIsNone(local.by_rank([torch.ones(2), 5, "text"]))

    def test_region_ends(self) -> None:
        """A simulation ends also by an exception, and a mode inside it is the same simulation."""
        with self.assertRaises(ZeroDivisionError), local.simulation(3) as mode:
            with local.active_mode(3) as inner:
                self.assertIs(inner, mode)
            with local.outside():
                self.assertIs(type(torch.ones(2)), torch.Tensor)
            self.assertIsNot(type(torch.ones(2)), torch.Tensor)
            raise ZeroDivisionError
        self.assertIs(type(torch.ones(2)), torch.Tensor)
        with local.active_mode(3):
            self.assertIsNot(type(torch.ones(2)), torch.Tensor)

    def test_profiler_scopes(self) -> None:
        """A profiler sees no scope and no operator of a simulation, and sees those after its end again."""
        with profile(use_kineto=False) as profiled:
            with record_function("before"):
                pass
            with contextlib.suppress(ZeroDivisionError), local.simulation(3):
                with record_function("inside"):
                    torch.ones(2)
                raise ZeroDivisionError
            with record_function("after"):
                pass
        events = profiled.function_events
        assert events is not None
        self.assertEqual([event.name for event in events], ["before", "after"])

    def test_generators(self) -> None:
        """Every rank starts with the process's random state and then has its own."""
        torch.manual_seed(5)
        expected = torch.rand(2).tolist()
        torch.manual_seed(5)
        with local.simulation(3):
            same = local.by_rank(torch.rand(2))
            torch.manual_seed(local.rank_of(3))
            own = local.by_rank(torch.rand(2))
        assert same is not None
        assert own is not None
        self.assertEqual([part.tolist() for _, part in same], [expected] * 3)
        self.assertEqual(len({tuple(part.tolist()) for _, part in own}), 3)


if __name__ == "__main__":
    unittest.main()
