"""Tests cases whose ranks one process can play: how they compare, what they run, and how classes are made."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from torch.distributed._local_tensor import local_tensor_mode

from harness import TestCase, UsageError
from harness.cases.dtensor import DTensorOpTestBase
from harness.cases.local_ranks import (
    LocalRanks,
    create_local_tensor_test_class,
    map_local_for_rank,
    map_local_tensor_for_rank,
    reduce_local_int,
)
from harness.ranks.local import rank as local
from suites.selftest.cases import dtensor_bodies as bodies


class InRank:
    """Stands for the case's own class below ``LocalRanks``; it keeps what ``LocalRanks`` passes on."""

    rank: Any = 0
    world_size = 3
    rank_modes: tuple[str, ...] = ("fresh", "local")
    passed_on: Any = None
    seeded = 0

    @classmethod
    def _run(cls, *args: Any, **kwargs: Any) -> None:
        cls.passed_on = (args, kwargs)

    def _seed_rank(self) -> None:
        assert local_tensor_mode() is None, "the generators are seeded before the simulation begins"
        self.seeded += 1

    def _run_in_rank(self, channel: Any) -> None:
        self.passed_on = (channel, local_tensor_mode() is not None)


def case(rank: Any) -> Any:
    """Returns a case of three ranks that is the given rank."""
    made: Any = type("Case", (LocalRanks, InRank, TestCase), {})()
    made.rank = rank
    return made


class ComparisonTest(unittest.TestCase):
    """The methods ``assertEqual`` and ``assertNotEqual``."""

    def setUp(self) -> None:
        """Makes a case that is all of three ranks, and an integer that is 0, 2 and 4 on them."""
        self.case = case(local.rank_of(3))
        self.double = self.case.rank * 2

    def failure(self, check: Any, *args: Any, **rules: Any) -> str:
        """Returns the message of a check that has to fail."""
        with self.assertRaises(AssertionError) as caught:
            check(*args, **rules)
        return str(caught.exception)

    def test_rank_by_rank(self) -> None:
        """Values that differ by rank are compared rank by rank; the message names the rank that failed."""
        self.case.assertEqual(self.double, self.case.rank + self.case.rank)
        self.case.assertNotEqual(self.double, 1)
        where = "on rank 1 of the 3 that are simulated"
        self.assertTrue(self.failure(self.case.assertEqual, self.double, 0).endswith(where))
        self.assertTrue(self.failure(self.case.assertNotEqual, self.double, 2).endswith(where))

    def test_message(self) -> None:
        """The test's own message comes before the place, and a callable one replaces the generated text."""
        where = "on rank 1 of the 3 that are simulated"
        text = self.failure(self.case.assertEqual, self.double, 0, "of the test")
        self.assertTrue(text.endswith(f"\nof the test\n{where}"), text)
        text = self.failure(self.case.assertEqual, self.double, 0, lambda generated: "made")
        self.assertEqual(text, f"made\n{where}")

    def test_rules(self) -> None:
        """Tolerances hold on every rank."""
        with local.simulation(3):
            near = map_local_for_rank(self.case.rank, lambda rank: torch.tensor([1.0 + rank / 8]))
            self.case.assertEqual(near, torch.ones(1), atol=0.5, rtol=0)
            text = self.failure(self.case.assertEqual, near, torch.ones(1), atol=0.2, rtol=0)
        self.assertIn("on rank 2 of the 3", text)

    def test_values_that_do_not_differ(self) -> None:
        """What is the same on all ranks is compared once, and so is all in a case that is one rank."""
        for each in (self.case, case(1)):
            with self.subTest(rank=each.rank):
                each.assertEqual(1, 1)
                self.assertNotIn("simulated", self.failure(each.assertEqual, 1, 2))
                self.assertNotIn("simulated", self.failure(each.assertNotEqual, 1, 1))


class SimulationTest(unittest.TestCase):
    """What runs in the process that plays the ranks."""

    def test_rank(self) -> None:
        """If ``_run`` is given a number of ranks, it makes one rank of them but does not pass it on."""
        made = case(0)
        made._run(0, "test", "/file", "pipe", fake_pg=False, **{local.ARGUMENT: 3})
        (rank, *others), kwargs = type(made).passed_on
        self.assertEqual(reduce_local_int(rank, dict), {0: 0, 1: 1, 2: 2})
        self.assertEqual((others, kwargs), (["test", "/file", "pipe"], {"fake_pg": False}))
        made._run(2, "test", "/file", "pipe")
        self.assertEqual(type(made).passed_on, ((2, "test", "/file", "pipe"), {}))

    def test_body(self) -> None:
        """The test of many ranks runs in a simulation, before which the generators are seeded."""
        for rank, simulated in ((local.rank_of(3), True), (1, False)):
            with self.subTest(simulated=simulated):
                made = case(rank)
                made._run_in_rank("channel")
                self.assertEqual(made.passed_on, ("channel", simulated))
                self.assertEqual(made.seeded, int(simulated))
                self.assertIsNone(local_tensor_mode())

    def test_is_local_tensor_enabled(self) -> None:
        """It is true in a simulated rank, and also in the parent of a class without another rank mode."""
        self.assertTrue(case(local.rank_of(3)).is_local_tensor_enabled)
        self.assertFalse(case(0).is_local_tensor_enabled)
        only = case(0)
        only.rank_modes = ("local",)
        self.assertTrue(only.is_local_tensor_enabled)

    def test_mode(self) -> None:
        """``_get_local_tensor_mode`` gives one tensor for each rank, and changes nothing in a simulation."""
        made = case(0)
        with made._get_local_tensor_mode():
            self.assertEqual([rank for rank, _ in local.by_rank(torch.ones(1)) or ()], [0, 1, 2])
        with local.simulation(2) as mode:
            with made._get_local_tensor_mode():
                self.assertIs(local_tensor_mode(), mode)
            self.assertIs(local_tensor_mode(), mode)


class FunctionsTest(unittest.TestCase):
    """The functions for tests that branch on their rank."""

    def test_one_rank(self) -> None:
        """For a plain rank the function is called once."""
        self.assertEqual(map_local_for_rank(2, lambda rank: rank + 1), 3)
        tensor = torch.ones(2)
        self.assertIs(map_local_tensor_for_rank(tensor, 2, lambda t, rank: t if rank == 2 else None), tensor)

    def test_many_ranks(self) -> None:
        """For simulated ranks the function is called with each rank, and may branch on it."""
        rank = local.rank_of(3)
        with local.simulation(3):
            tensor = map_local_for_rank(rank, lambda r: torch.tensor([r + 5 if r else 0]))
            changed = map_local_tensor_for_rank(tensor, rank, lambda t, r: -t if r == 1 else t)
            found = [(r, own.item()) for r, own in local.by_rank(changed) or ()]
        self.assertEqual(found, [(0, 0), (1, -6), (2, 7)])

    def test_rank_of_many(self) -> None:
        """One simulated integer holds the numbers of all ranks."""
        rank = local.rank_of(4)
        self.assertTrue(local.is_simulated(rank))
        self.assertFalse(local.is_simulated(2))
        self.assertEqual(reduce_local_int(rank + 1, lambda values: values), {0: 1, 1: 2, 2: 3, 3: 4})


class MadeClassTest(unittest.TestCase):
    """``create_local_tensor_test_class``, which makes a class for local tensors of another."""

    def test_made(self) -> None:
        """The class has the other's name and module, its own rank mode, and skips what it is told to skip."""
        made = create_local_tensor_test_class(bodies.Faulty, ["test_skips"])
        self.assertEqual((made.__module__, made.__name__), (bodies.__name__, "FaultyWithLocalTensor"))
        self.assertEqual((made.rank_modes, made.__mro__[1]), (("local",), bodies.Faulty))
        result = unittest.TestResult()
        made("test_skips").run(result)
        self.assertEqual([reason for _, reason in result.skipped], ["not on local tensors"])
        self.assertIs(made.test_body_raises, bodies.Faulty.test_body_raises)
        self.assertFalse(hasattr(bodies.Faulty.test_skips, "__unittest_skip__"))

    def test_refused(self) -> None:
        """A class that cannot run on local tensors is refused, and so is one without rank modes."""
        for unsuitable in (DTensorOpTestBase, unittest.TestCase):
            with self.assertRaisesRegex(
                UsageError, f"^{unsuitable.__name__} .*derive it from DTensorTestBase"
            ):
                create_local_tensor_test_class(unsuitable)


class PlayedTest(unittest.TestCase):
    """Verdicts of whole tests in a process that plays four ranks."""

    def test_fails_on_two_ranks(self) -> None:
        """A wrong tensor on two ranks is a failure that names the first of them."""
        result, outcome = bodies.play(bodies.FaultyLocal, "test_fails_on_two_ranks")
        self.assertEqual(len(result.failures), 1, bodies.said(result))
        self.assertEqual([o.rank for o in outcome.ranks], [0, 1, 2, 3])
        self.assertIn("on rank 1 of the 4 that are simulated", bodies.said(result))

    def test_unequal_on_some_ranks(self) -> None:
        """Values that must differ have to do so on every rank."""
        result, _ = bodies.play(bodies.FaultyLocal, "test_unequal_on_some_ranks")
        self.assertEqual(len(result.failures), 1)
        self.assertIn("on rank 0 of the 4 that are simulated", bodies.said(result))
        self.assertIn("Expected different values, but tensor([0., 0.])", bodies.said(result))

    def test_dtensors_differ_on_one_rank(self) -> None:
        """A DTensor that differs on one rank is a failure that names the rank."""
        result, _ = bodies.play(bodies.FaultyLocal, "test_dtensors_differ_on_one_rank")
        self.assertEqual(len(result.failures), 1)
        self.assertIn("on rank 2 of the 4 that are simulated", bodies.said(result))


if __name__ == "__main__":
    unittest.main()
