"""Tests that nothing in torch refers to a test's meshes and process groups when the test is over."""

from __future__ import annotations

import gc
import unittest
import weakref
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, _random, distribute_tensor
from torch.distributed.tensor._redistribute import _gen_transform_infos

from harness import Status
from harness.cases import meshes
from harness.releases import torch_at_least
from suites.selftest.cases import dtensor_bodies as bodies
from suites.selftest.cases import test_dtensor


class OneRankTest(unittest.TestCase):
    """Base of tests in this process, which is the only rank of a default process group."""

    def setUp(self) -> None:
        """Makes the default group, which ends with the test if the test has not ended it."""
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(lambda: dist.destroy_process_group() if dist.is_initialized() else None)
        self.addCleanup(meshes.forget_meshes)


class ForgetMeshesTest(OneRankTest):
    """``forget_meshes``, which empties what torch keeps of meshes."""

    def test_mesh_is_freed(self) -> None:
        """A mesh that DTensor operators have used is kept by torch's caches, and then by nobody."""

        def used(*, operator: bool) -> weakref.ref[DeviceMesh]:
            mesh = init_device_mesh("cpu", (1,))
            tensor = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
            tensor.redistribute(mesh, [Replicate()])
            if operator:
                tensor.exp()
            return weakref.ref(mesh)

        # Before 2.13, torch never lets go of the mesh of some operators.
        for operator in (False, True) if torch_at_least("2.13") else (False,):
            with self.subTest(operator=operator):
                mesh = used(operator=operator)
                gc.collect()
                self.assertIsNotNone(mesh(), "torch kept no mesh, so that this test shows nothing")
                meshes.forget_meshes()
                self.assertIsNone(mesh())

    def test_random_state(self) -> None:
        """The state of DTensor's random numbers is made anew for the next mesh."""
        _random._rng_tracker = object()  # torch makes none for CPU meshes
        meshes.forget_meshes()
        self.assertIsNone(_random._rng_tracker)

    def test_caches_that_torch_lacks(self) -> None:
        """A cache that another version of torch has is no error."""
        lacking = [("torch.no_such_module", "x"), ("torch", "no_such.attribute")]
        self.assertEqual(len([*meshes.emptiers([*lacking, *meshes.CACHES[:1], *lacking])]), 1)


class Holder:
    """A stand-in for a case, which keeps meshes on the instance and on its class."""

    shared: Any = None


class GroupsBeforeTest(OneRankTest):
    """``GroupsBefore``, which ends the groups that a test made and keeps those from before it."""

    def setUp(self) -> None:
        """Makes a case with a group and a mesh from before the test."""
        super().setUp()
        self.case: Any = type("Case", (Holder,), {})()
        self.group = dist.new_group([0])
        type(self.case).early = init_device_mesh("cpu", (1, 1))
        self.before = meshes.GroupsBefore(self.case)

    def test_what_the_test_made(self) -> None:
        """Groups of the test are destroyed and its meshes are dropped; those from before stay."""
        made = dist.new_group([0])
        self.case.mesh = init_device_mesh("cpu", (1, 1))
        Holder.shared_mesh = self.case.mesh  # type: ignore[attr-defined]  # as a test may do
        self.before.end(together=True)
        with self.assertRaises(ValueError):
            dist.get_backend(made)
        self.assertEqual(vars(self.case), {})
        self.assertFalse(hasattr(Holder, "shared_mesh"))
        for group in (None, self.group, type(self.case).early.get_group(0)):
            self.assertEqual(dist.get_backend(group), "gloo")

    def test_nothing_made(self) -> None:
        """A test that made no group loses no attribute, and its ranks do not wait for each other."""
        self.case.mesh = type(self.case).early
        with mock.patch.object(dist, "barrier") as barrier:
            self.before.end(together=True)
        self.assertIs(self.case.mesh, type(self.case).early)
        barrier.assert_not_called()

    def test_barrier(self) -> None:
        """Ranks that all get here wait for each other before they destroy a group, others must not."""
        for together in (True, False):
            with self.subTest(together=together), mock.patch.object(dist, "barrier") as barrier:
                group = dist.new_group([0])
                self.before.end(together=together)
                self.assertEqual(barrier.called, together)
                self.assertRaises(ValueError, dist.get_backend, group)

    def test_default_group_destroyed(self) -> None:
        """There is nothing to end in a rank whose test has destroyed the default group."""
        dist.destroy_process_group()
        self.before.end(together=True)
        self.assertFalse(dist.is_initialized())


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
        for case in (
            test_dtensor.OnPooledRanks,
            test_dtensor.OnOneGroup,
            test_dtensor.OnLocalTensors,
            test_dtensor.OnLocalTensorsWithOneGroup,
        ):
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

    def test_threads(self) -> None:
        """A threaded test leaves torch's cache of meshes empty, since later threads may reuse its ids."""
        result, _ = bodies.play(test_dtensor.OnThreads, "test_redistribute")
        self.assertTrue(result.wasSuccessful(), bodies.said(result))
        self.assertEqual(_gen_transform_infos.cache_info().currsize, 0)


if __name__ == "__main__":
    unittest.main()
