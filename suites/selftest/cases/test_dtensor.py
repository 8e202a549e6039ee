"""The same DTensor tests in every rank mode, and what their bases do when something goes wrong."""

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
from harness.ranks.local import rank as local
from harness.releases import torch_at_least
from harness.requirements import MachineFacts, Occasion, requirements_of, requires_world_size
from suites.selftest.cases import dtensor_bodies as bodies


class OnFreshRanks(bodies.Bodies, DTensorTestBase):
    """Processes of the test's own."""


class OnPooledRanks(bodies.Bodies, DTensorTestBase):
    """Processes that are kept, with a process group for each test."""

    rank_modes = ("pooled",)


class OnOneGroup(bodies.Bodies, DTensorContinuousTestBase):
    """Processes and process group are kept."""


class OnThreads(bodies.Bodies, DTensorOpTestBase):
    """Threads of this process, on torch's threaded group."""


class OnThreadsWithGloo(bodies.Bodies, DTensorTestBase):
    """Threads of this process, on gloo."""

    rank_modes = ("threads",)


class OnLocalTensors(bodies.Bodies, LocalDTensorTestBase):
    """One process that plays all ranks."""


class OnLocalTensorsWithOneGroup(bodies.Bodies, LocalDTensorContinuousTestBase):
    """The same, and the group is kept."""


class OnLocalTensorsWithAGroup(bodies.Bodies, LocalDTensorOpTestBase):
    """The same, with a group for each test that is there before the test."""


OnFreshRanksWithLocalTensor = create_local_tensor_test_class(OnFreshRanks, ["test_drawn_shapes"])


class KeptRanksTest(unittest.TestCase):
    """Pooled ranks are kept from one DTensor test to the next: nothing of its meshes is left."""

    def test_kept(self) -> None:
        """The same processes run meshes of one and two dimensions, operators and random numbers."""
        methods = [
            "test_mesh_of_two_dimensions",
            "test_matmul",
            "test_random_numbers_of_a_rank",
            "test_partial",
        ]
        if not torch_at_least("2.13"):
            methods.remove("test_matmul")  # before, torch never lets go of the mesh of a product
        for case in (OnPooledRanks, OnOneGroup, OnLocalTensors, OnLocalTensorsWithOneGroup):
            with self.subTest(case.__name__):
                outcomes = [bodies.play(case, method)[1] for method in methods]
                self.assertEqual([o.warnings for o in outcomes], [()] * len(methods))
                self.assertEqual(len({tuple(r.pid for r in o.ranks) for o in outcomes}), 1)

    def test_mesh_on_the_case(self) -> None:
        """A test that keeps its mesh as an attribute leaves no connection, and its ranks stay."""
        outcomes = [bodies.play(bodies.KeepsItsMesh, "test_keeps_its_mesh")[1] for _ in range(2)]
        self.assertEqual([o.warnings for o in outcomes], [()] * 2)
        self.assertEqual(len({tuple(r.pid for r in o.ranks) for o in outcomes}), 1)

    def test_groups_and_meshes_of_the_class(self) -> None:
        """A group that was there before the test stays, a mesh that came with it goes; so does a skip's."""
        methods = ("test_group_of_the_class", "test_mesh_of_the_class", "test_skips_after_a_mesh")
        outcomes = [bodies.play(bodies.KeepsMore, method)[1] for method in methods * 2]
        expected = [Status.PASSED, Status.PASSED, Status.SKIPPED] * 2
        self.assertEqual([o.status for o in outcomes], expected)
        self.assertEqual([o.warnings for o in outcomes], [()] * 6)
        self.assertEqual(len({tuple(r.pid for r in o.ranks) for o in outcomes}), 1)

    def test_default_group_destroyed(self) -> None:
        """The test passes; its ranks are not kept."""
        result, outcome = bodies.play(bodies.KeepsMore, "test_destroys_the_group_itself")
        self.assertTrue(result.wasSuccessful(), bodies.said(result))
        self.assertIn("process group 0, destroyed", "\n".join(outcome.warnings))

    def test_world_size_that_is_a_property(self) -> None:
        result, _ = bodies.play(bodies.Unsized, "test_size")
        self.assertTrue(result.wasSuccessful(), bodies.said(result))

    def test_threads(self) -> None:
        """What torch remembered of a mesh is gone: the next test's threads may have the same numbers."""
        result, _ = bodies.play(OnThreads, "test_redistribute")
        self.assertTrue(result.wasSuccessful(), bodies.said(result))
        self.assertEqual(_gen_transform_infos.cache_info().currsize, 0)


class OperatorTest(unittest.TestCase):
    """``_test_op`` sees what is wrong."""

    def test_operator_differs(self) -> None:
        """A failure that names the placements."""
        result, _ = bodies.play(bodies.Faulty, "test_operator_differs", HARNESS_RANKS="local")
        self.assertIn("Mismatched elements", bodies.said(result))
        self.assertIn("with (Replicate(),)", bodies.said(result))

    def test_operator_without_tensors(self) -> None:
        """Nothing tested is a failure."""
        result, _ = bodies.play(bodies.Faulty, "test_operator_without_tensors", HARNESS_RANKS="local")
        self.assertIn("none is a tensor", bodies.said(result))


class LocalTest(unittest.TestCase):
    """A process that plays all ranks is judged as ranks are."""

    def test_fails_on_two_ranks(self) -> None:
        """A failure of the test, with what it found."""
        result, outcome = bodies.play(bodies.FaultyLocal, "test_fails_on_two_ranks")
        self.assertEqual(len(result.failures), 1, bodies.said(result))
        self.assertEqual([o.rank for o in outcome.ranks], [0, 1, 2, 3])
        self.assertIn("on rank 1 of the 4 that are simulated", bodies.said(result))

    def test_dies(self) -> None:
        """A crash, with the exit code."""
        result, _ = bodies.play(bodies.FaultyLocal, "test_dies")
        self.assertIn("exit code 3", bodies.said(result))

    def test_hangs(self) -> None:
        """Timed out, with the line that it stood on."""
        result, outcome = bodies.play(bodies.FaultyLocal, "test_hangs", HARNESS_TIMEOUT="2")
        self.assertIn("timed out", bodies.said(result))
        self.assertIn("in test_hangs", bodies.said(result))
        self.assertEqual([o.status for o in outcome.ranks], [Status.TIMED_OUT] * 4)

    def test_pollution(self) -> None:
        """A test that fails for what another left is told from one that fails anyway."""
        bodies.play(bodies.FaultyLocal, "test_leaves_its_mark")
        result, _ = bodies.play(bodies.FaultyLocal, "test_finds_no_mark")
        self.assertIn("left by test_leaves_its_mark", bodies.said(result))
        self.assertIn(local.POLLUTED, bodies.said(result))
        bodies.play(bodies.FaultyLocal, "test_leaves_its_mark")
        result, _ = bodies.play(bodies.FaultyLocal, "test_always_fails")
        self.assertIn("whatever ran before", bodies.said(result))
        self.assertNotIn(local.POLLUTED, bodies.said(result))

    def test_unequal_on_some_ranks(self) -> None:
        """What is to differ has to on every rank."""
        result, _ = bodies.play(bodies.FaultyLocal, "test_unequal_on_some_ranks")
        self.assertEqual(len(result.failures), 1)
        self.assertIn("on rank 0 of the 4 that are simulated", bodies.said(result))
        self.assertIn("Expected different values, but tensor([0., 0.])", bodies.said(result))

    def test_dtensors_differ_on_one_rank(self) -> None:
        """It is named, and the verdict is a failure as on processes."""
        result, _ = bodies.play(bodies.FaultyLocal, "test_dtensors_differ_on_one_rank")
        self.assertEqual(len(result.failures), 1)
        self.assertIn("on rank 2 of the 4 that are simulated", bodies.said(result))

    def test_branch_on_a_rank(self) -> None:
        """It would not be taken: the test is told so in place of a pass."""
        result, _ = bodies.play(bodies.FaultyLocal, "test_branches_on_its_rank")
        self.assertEqual(len(result.errors), 1)
        self.assertIn("True on rank 1 and False on ranks 0, 2, 3", bodies.said(result))

    def test_rank_of_many(self) -> None:
        """One integer that is all ranks."""
        rank = local.rank_of(4)
        self.assertTrue(local.is_simulated(rank))
        self.assertFalse(local.is_simulated(2))
        self.assertEqual(reduce_local_int(rank + 1, lambda values: values), {0: 1, 1: 2, 2: 3, 3: 4})

    def test_class_made_of_another(self) -> None:
        """Its name, mode and skips; a class that cannot be is refused."""
        made = OnFreshRanksWithLocalTensor
        self.assertEqual((made.__name__, made.rank_modes), ("OnFreshRanksWithLocalTensor", ("local",)))
        result = unittest.TestResult()
        made("test_drawn_shapes").run(result)
        self.assertEqual([reason for _, reason in result.skipped], ["not on local tensors"])
        with self.assertRaisesRegex(UsageError, "derive it from DTensorTestBase"):
            create_local_tensor_test_class(OnThreads)


class DefaultsTest(unittest.TestCase):
    """What a case takes when nobody says."""

    def test_world_size(self) -> None:
        """What the test requires, else the machine's."""
        self.assertEqual(bodies.Faulty("test_skips").world_size, NUM_DEVICES)

        class Demanding(DTensorTestBase):
            @requires_world_size(2)
            def test_two(self) -> None:
                """Not run."""

        self.assertEqual(Demanding("test_two").world_size, 2)

    def test_skip_unless_torch_gpu(self) -> None:
        """Nothing is probed at decoration; a machine with two devices has enough."""

        @skip_unless_torch_gpu
        def test_method(self: Any) -> None:
            """Not run."""

        owner = type("Case", (), {"test_method": test_method})
        (requirement,) = requirements_of(owner, "test_method").items
        for count, met in ((0, False), (1, False), (2, True), (8, True)):
            facts = MachineFacts(accelerators=(("cuda", count),) if count else ())
            self.assertEqual(requirement.unmet(facts, Occasion()) is None, met, count)


if __name__ == "__main__":
    unittest.main()
