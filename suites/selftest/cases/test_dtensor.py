"""Tests that the same DTensor tests pass in every rank mode, and how their base classes report faults."""

from __future__ import annotations

import unittest
from typing import Any

from torch.distributed.tensor._redistribute import _gen_transform_infos

from harness import Status, UsageError
from harness.cases.dtensor import (
    NUM_DEVICES,
    DTensorContinuousTestBase,
    DTensorOpTestBase,
    DTensorTestBase,
    LocalDTensorContinuousTestBase,
    LocalDTensorOpTestBase,
    LocalDTensorTestBase,
    create_local_tensor_test_class,
    skip_unless_torch_gpu,
)
from harness.cases.local_ranks import reduce_local_int
from harness.ranks.local import mode as local_mode
from harness.ranks.local import rank as local
from harness.releases import torch_at_least
from harness.requirements import MachineFacts, Occasion, requirements_of, requires_world_size
from suites.selftest.cases import dtensor_bodies as bodies


class OnFreshRanks(bodies.Bodies, DTensorTestBase):
    """Runs the bodies on fresh processes."""


class OnPooledRanks(bodies.Bodies, DTensorTestBase):
    """Runs the bodies on pooled processes, with a process group for each test."""

    rank_modes = ("pooled",)


class OnOneGroup(bodies.Bodies, DTensorContinuousTestBase):
    """Runs the bodies on pooled processes that keep their process group."""


class OnThreads(bodies.Bodies, DTensorOpTestBase):
    """Runs the bodies on threads of this process, on torch's threaded group."""


class OnThreadsWithGloo(bodies.Bodies, DTensorTestBase):
    """Runs the bodies on threads of this process, on gloo."""

    rank_modes = ("threads",)


class OnLocalTensors(bodies.Bodies, LocalDTensorTestBase):
    """Runs the bodies in one process that simulates all ranks."""


class OnLocalTensorsWithOneGroup(bodies.Bodies, LocalDTensorContinuousTestBase):
    """Runs the bodies on simulated ranks, with a group that is kept."""


class OnLocalTensorsWithAGroup(bodies.Bodies, LocalDTensorOpTestBase):
    """Runs the bodies on simulated ranks, with a group that exists before each test."""


OnFreshRanksWithLocalTensor = create_local_tensor_test_class(OnFreshRanks, ["test_drawn_shapes"])


class KeptRanksTest(unittest.TestCase):
    """Pooled ranks are kept from one DTensor test to the next, because nothing of a mesh is left."""

    def test_kept(self) -> None:
        """The same processes run meshes of one and two dimensions, operators and random numbers."""
        methods = [
            "test_mesh_of_two_dimensions",
            "test_matmul",
            "test_random_numbers_of_a_rank",
            "test_partial",
        ]
        if not torch_at_least("2.13"):
            methods.remove("test_matmul")  # before 2.13, torch never lets go of the mesh of a product
        for case in (OnPooledRanks, OnOneGroup, OnLocalTensors, OnLocalTensorsWithOneGroup):
            with self.subTest(case.__name__):
                outcomes = [bodies.play(case, method)[1] for method in methods]
                self.assertEqual([o.warnings for o in outcomes], [()] * len(methods))
                self.assertEqual(len({tuple(r.pid for r in o.ranks) for o in outcomes}), 1)

    def test_mesh_on_the_case(self) -> None:
        """A test that keeps its mesh as an attribute leaves no connection, and its ranks are kept."""
        outcomes = [bodies.play(bodies.KeepsItsMesh, "test_keeps_its_mesh")[1] for _ in range(2)]
        self.assertEqual([o.warnings for o in outcomes], [()] * 2)
        self.assertEqual(len({tuple(r.pid for r in o.ranks) for o in outcomes}), 1)

    def test_groups_and_meshes_of_the_class(self) -> None:
        """A group from before the test stays, and a mesh made in a test goes, also if the test skips."""
        methods = ("test_group_of_the_class", "test_mesh_of_the_class", "test_skips_after_a_mesh")
        outcomes = [bodies.play(bodies.KeepsMore, method)[1] for method in methods * 2]
        expected = [Status.PASSED, Status.PASSED, Status.SKIPPED] * 2
        self.assertEqual([o.status for o in outcomes], expected)
        self.assertEqual([o.warnings for o in outcomes], [()] * 6)
        self.assertEqual(len({tuple(r.pid for r in o.ranks) for o in outcomes}), 1)

    def test_default_group_destroyed(self) -> None:
        """A test that destroys the default group passes, and its ranks are not kept."""
        result, outcome = bodies.play(bodies.KeepsMore, "test_destroys_the_group_itself")
        self.assertTrue(result.wasSuccessful(), bodies.said(result))
        self.assertIn("process group 0, destroyed", "\n".join(outcome.warnings))

    def test_world_size_that_is_a_property(self) -> None:
        result, _ = bodies.play(bodies.Unsized, "test_size")
        self.assertTrue(result.wasSuccessful(), bodies.said(result))

    def test_threads(self) -> None:
        """A threaded test leaves torch's cache of meshes empty, since later threads may reuse its ids."""
        result, _ = bodies.play(OnThreads, "test_redistribute")
        self.assertTrue(result.wasSuccessful(), bodies.said(result))
        self.assertEqual(_gen_transform_infos.cache_info().currsize, 0)


class OperatorTest(unittest.TestCase):
    """``_test_op`` finds wrong operators."""

    def test_operator_differs(self) -> None:
        """An operator that is wrong on DTensors is a failure that names the placements."""
        result, _ = bodies.play(bodies.Faulty, "test_operator_differs", HARNESS_RANKS="local")
        self.assertIn("Mismatched elements", bodies.said(result))
        self.assertIn("with (Replicate(),)", bodies.said(result))

    def test_operator_without_tensors(self) -> None:
        """A call of ``_test_op`` without a tensor is a failure."""
        result, _ = bodies.play(bodies.Faulty, "test_operator_without_tensors", HARNESS_RANKS="local")
        self.assertIn("none is a tensor", bodies.said(result))


class LocalTest(unittest.TestCase):
    """Verdicts of a process that simulates all ranks."""

    def test_fails_on_two_ranks(self) -> None:
        """A wrong tensor on two ranks is a failure that names the first of them."""
        result, outcome = bodies.play(bodies.FaultyLocal, "test_fails_on_two_ranks")
        self.assertEqual(len(result.failures), 1, bodies.said(result))
        self.assertEqual([o.rank for o in outcome.ranks], [0, 1, 2, 3])
        self.assertIn("on rank 1 of the 4 that are simulated", bodies.said(result))

    def test_dies(self) -> None:
        """A process that dies is a crash with its exit code."""
        result, _ = bodies.play(bodies.FaultyLocal, "test_dies")
        self.assertIn("exit code 3", bodies.said(result))

    def test_hangs(self) -> None:
        """A process that hangs is a time-out with the line where it hung."""
        result, outcome = bodies.play(bodies.FaultyLocal, "test_hangs", HARNESS_TIMEOUT="2")
        self.assertIn("timed out", bodies.said(result))
        self.assertIn("in test_hangs", bodies.said(result))
        self.assertEqual([o.status for o in outcome.ranks], [Status.TIMED_OUT] * 4)

    def test_pollution(self) -> None:
        """A test that fails because of another test's leftovers is told from one that fails anyway."""
        bodies.play(bodies.FaultyLocal, "test_leaves_its_mark")
        result, _ = bodies.play(bodies.FaultyLocal, "test_finds_no_mark")
        self.assertIn("left by test_leaves_its_mark", bodies.said(result))
        self.assertIn(local_mode.POLLUTED, bodies.said(result))
        bodies.play(bodies.FaultyLocal, "test_leaves_its_mark")
        result, _ = bodies.play(bodies.FaultyLocal, "test_always_fails")
        self.assertIn("whatever ran before", bodies.said(result))
        self.assertNotIn(local_mode.POLLUTED, bodies.said(result))

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

    def test_branch_on_a_rank(self) -> None:
        """A branch on the simulated rank is an error, because no process could take it."""
        result, _ = bodies.play(bodies.FaultyLocal, "test_branches_on_its_rank")
        self.assertEqual(len(result.errors), 1)
        self.assertIn("True on rank 1 and False on ranks 0, 2, 3", bodies.said(result))

    def test_rank_of_many(self) -> None:
        """One simulated integer holds the numbers of all ranks."""
        rank = local.rank_of(4)
        self.assertTrue(local.is_simulated(rank))
        self.assertFalse(local.is_simulated(2))
        self.assertEqual(reduce_local_int(rank + 1, lambda values: values), {0: 1, 1: 2, 2: 3, 3: 4})

    def test_class_made_of_another(self) -> None:
        """A class made from another has its name, mode and skips, and an unsuitable class is refused."""
        made = OnFreshRanksWithLocalTensor
        self.assertEqual((made.__name__, made.rank_modes), ("OnFreshRanksWithLocalTensor", ("local",)))
        result = unittest.TestResult()
        made("test_drawn_shapes").run(result)
        self.assertEqual([reason for _, reason in result.skipped], ["not on local tensors"])
        with self.assertRaisesRegex(UsageError, "derive it from DTensorTestBase"):
            create_local_tensor_test_class(OnThreads)


class DefaultsTest(unittest.TestCase):
    """The defaults of a DTensor case."""

    def test_world_size(self) -> None:
        """The world size is what the test requires, and else the machine's."""
        self.assertEqual(bodies.Faulty("test_skips").world_size, NUM_DEVICES)

        class Demanding(DTensorTestBase):
            @requires_world_size(2)
            def test_two(self) -> None:
                """Never runs."""

        self.assertEqual(Demanding("test_two").world_size, 2)

    def test_skip_unless_torch_gpu(self) -> None:
        """skip_unless_torch_gpu requires two devices and does not probe the machine at decoration."""

        @skip_unless_torch_gpu
        def test_method(self: Any) -> None:
            """Never runs."""

        owner = type("Case", (), {"test_method": test_method})
        (requirement,) = requirements_of(owner, "test_method").items
        for count, met in ((0, False), (1, False), (2, True), (8, True)):
            facts = MachineFacts(accelerators=(("cuda", count),) if count else ())
            self.assertEqual(requirement.unmet(facts, Occasion()) is None, met, count)


if __name__ == "__main__":
    unittest.main()
