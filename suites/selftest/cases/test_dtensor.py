"""Tests that the same DTensor tests pass in every rank mode, and how their base classes report faults."""

from __future__ import annotations

import unittest
from typing import Any

from harness import Status
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
from harness.ranks.local import mode as local_mode
from harness.requirements import MachineFacts, RunFacts, requirements_of, requires_world_size
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

    def test_dies(self) -> None:
        """A process that dies is a crash with its exit code."""
        result, _ = bodies.play(bodies.FaultyLocal, "test_dies")
        self.assertIn("exit code 3", bodies.said(result))

    def test_hangs(self) -> None:
        """A process that hangs is a time-out with the line where it hung."""
        bodies.play(bodies.FaultyLocal, "test_leaves_its_mark")  # starts the process, without the deadline
        result, outcome = bodies.play(bodies.FaultyLocal, "test_hangs", HARNESS_TIMEOUT="2")
        self.assertIn("timed out", bodies.said(result))
        self.assertIn("in test_hangs", bodies.said(result))
        self.assertEqual([o.status for o in outcome.ranks], [Status.TIMED_OUT] * 4)

    def test_many_ranks(self) -> None:
        """1,024 ranks pass, or time out with the line that took the time; they are named in short."""
        result, _ = bodies.play(bodies.ManyLocal, "test_spreads")
        self.assertTrue(result.wasSuccessful(), bodies.said(result))
        result, _ = bodies.play(bodies.ManyLocal, "test_scatters", HARNESS_TIMEOUT="3")
        self.assertIn("timed out (world size 1024)", bodies.said(result))
        self.assertRegex(bodies.said(result), r"ranks 0-1023 are at dtensor_bodies.py:\d+ in test_scatters")
        self.assertNotIn("1, 2, 3", bodies.said(result))

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

    def test_branch_on_a_rank(self) -> None:
        """A branch on the simulated rank is an error, because no process could take it."""
        result, _ = bodies.play(bodies.FaultyLocal, "test_branches_on_its_rank")
        self.assertEqual(len(result.errors), 1)
        self.assertIn("True on rank 1 and False on ranks 0, 2, 3", bodies.said(result))


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

    def test_world_size_that_is_a_property(self) -> None:
        """The world size may be a property of a class whose ranks are kept."""
        result, _ = bodies.play(bodies.Unsized, "test_size")
        self.assertTrue(result.wasSuccessful(), bodies.said(result))

    def test_skip_unless_torch_gpu(self) -> None:
        """skip_unless_torch_gpu requires two devices and does not probe the machine at decoration."""

        @skip_unless_torch_gpu
        def test_method(self: Any) -> None:
            """Never runs."""

        owner = type("Case", (), {"test_method": test_method})
        (requirement,) = requirements_of(owner, "test_method").items
        for count, met in ((0, False), (1, False), (2, True), (8, True)):
            facts = MachineFacts(accelerators=(("cuda", count),) if count else ())
            self.assertEqual(requirement.unmet(facts, RunFacts()) is None, met, count)


if __name__ == "__main__":
    unittest.main()
