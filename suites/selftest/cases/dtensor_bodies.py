"""DTensor tests that run in every rank mode, and faulty DTensor cases."""

from __future__ import annotations

import os
import unittest
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from hypothesis import strategies as st
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh

from harness import TestOutcome, same_draws
from harness.cases.dtensor import (
    DTensorContinuousTestBase,
    DTensorTestBase,
    LocalDTensorTestBase,
    map_local_for_rank,
    with_comms,
)
from harness.seeding import base_seed
from suites.selftest.faults import patches


def counting(*shape: int) -> torch.Tensor:
    """Returns a tensor that counts from 0, in which no element can take another's place unseen."""
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


# Any base class of DTensor tests may come after ``Bodies``; the type checker is to assume none of them.
_Case: Any = object


class Bodies(_Case):  # type: ignore[misc]  # see _Case
    """The tests that every rank mode has to pass, on four ranks."""

    @with_comms
    def test_distribute(self) -> None:
        """A rank's shard is its part of the whole, and the parts make up the whole."""
        mesh, whole = self.build_device_mesh(), counting(8, 3)
        sharded = distribute_tensor(whole, mesh, [Shard(0)])
        mine = map_local_for_rank(self.rank, lambda rank: whole[2 * rank : 2 * rank + 2])
        self.assertEqual(sharded.to_local(), mine)
        self.assertEqual(sharded.full_tensor(), whole)

    @with_comms
    def test_uneven_shards(self) -> None:
        """Six rows on four ranks are split into 2, 2, 2 and none."""
        mesh, whole = self.build_device_mesh(), counting(6, 2)
        sharded = distribute_tensor(whole, mesh, [Shard(0)])
        mine = map_local_for_rank(self.rank, lambda rank: whole[2 * rank : 2 * rank + 2])
        self.assertEqual(sharded.to_local(), mine)
        self.assertEqual(sharded.full_tensor(), whole)

    @with_comms
    def test_redistribute(self) -> None:
        """Every placement can be redistributed to every other."""
        mesh, whole = self.build_device_mesh(), counting(8, 4)
        kinds = [Replicate(), Shard(0), Shard(1)]
        for before in kinds:
            for after in kinds:
                moved = distribute_tensor(whole, mesh, [before]).redistribute(placements=[after])
                self.assertEqual(moved.placements, (after,))
                self.assertEqual(moved.full_tensor(), whole, f"{before} to {after}")

    @with_comms
    def test_partial(self) -> None:
        """A partial tensor's full value is the sum of the ranks' parts, 0 + 1 + 2 + 3."""
        mesh = self.build_device_mesh()
        part = map_local_for_rank(self.rank, lambda rank: torch.full((4, 4), float(rank)))
        summed = DTensor.from_local(part, mesh, [Partial()])
        self.assertEqual(summed.full_tensor(), torch.full((4, 4), 6.0))
        self.assertEqual(summed.redistribute(placements=[Shard(1)]).full_tensor(), torch.full((4, 4), 6.0))

    @with_comms
    def test_matmul(self) -> None:
        """A product's placement and gradients follow from the placements of its factors."""
        mesh, x, y = self.build_device_mesh(), counting(8, 4), counting(4, 8)
        rows, columns = distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(y, mesh, [Shard(1)])
        whole = distribute_tensor(y, mesh, [Replicate()])
        inner = distribute_tensor(x, mesh, [Shard(1)]) @ distribute_tensor(y, mesh, [Shard(0)])
        self.assertEqual((rows @ whole).placements, (Shard(0),))
        self.assertEqual(inner.placements, (Partial(),))
        for product in (rows @ whole, inner, rows @ columns):
            self.assertEqual(product.full_tensor(), x @ y)
        weight = distribute_tensor(y, mesh, [Replicate()]).requires_grad_()
        (rows @ weight).sum().backward()
        assert weight.grad is not None
        self.assertEqual(weight.grad.full_tensor(), x.t() @ torch.ones(8, 8))

    @with_comms
    def test_mesh_of_two_dimensions(self) -> None:
        """On a two by two mesh each dimension shards another tensor dimension and is a mesh of its own."""
        mesh = init_device_mesh(self.device_type, (2, 2), mesh_dim_names=("rows", "columns"))
        whole = counting(4, 6)
        both = distribute_tensor(whole, mesh, [Shard(0), Shard(1)])
        mine = map_local_for_rank(
            self.rank, lambda r: whole[r // 2 * 2 : r // 2 * 2 + 2, r % 2 * 3 : r % 2 * 3 + 3]
        )
        self.assertEqual(both.to_local(), mine)
        self.assertEqual(both.full_tensor(), whole)
        part = map_local_for_rank(self.rank, lambda rank: torch.full((2,), float(rank)))
        across = DTensor.from_local(part, mesh["columns"], [Partial()]).full_tensor()
        expected = map_local_for_rank(self.rank, lambda rank: torch.full((2,), 1.0 if rank < 2 else 5.0))
        self.assertEqual(across, expected)

    @with_comms
    def test_operator_on_every_sharding(self) -> None:
        """``_test_op`` and ``_test_op_on_dtensor`` pass correct operators."""
        mesh = self.build_device_mesh()
        self._test_op(mesh, torch.add, counting(8, 4), counting(8, 4), alpha=2)
        self._test_op(mesh, torch.unbind, counting(2, 4))
        sharded = distribute_tensor(counting(8, 4), mesh, [Shard(1)])
        self._test_op_on_dtensor(torch.softmax, sharded, dim=0)

    @with_comms
    def test_random_numbers_of_a_rank(self) -> None:
        """All ranks draw the same numbers until each is seeded for itself, alike in every rank mode."""
        self.assertEqual(torch.rand(3), map_local_for_rank(self.rank, lambda _: _drawn(base_seed())))
        self.init_manual_seed_for_rank()
        self.assertEqual(torch.rand(3), map_local_for_rank(self.rank, _drawn))

    @with_comms
    def test_sub_tests(self) -> None:
        """``run_subtests`` takes every combination, varying the last keyword fastest."""
        mesh, seen = self.build_device_mesh(), []

        def check(base: int, dim: int, size: int) -> None:
            whole = counting(size, size) + base
            seen.append((dim, size))
            self.assertEqual(distribute_tensor(whole, mesh, [Shard(dim)]).full_tensor(), whole)

        self.run_subtests({"dim": [0, 1], "size": [4, 5]}, check, 7)
        self.assertEqual(seen, [(0, 4), (0, 5), (1, 4), (1, 5)])

    @with_comms
    def test_drawn_shapes(self) -> None:
        """Hypothesis's shapes are the same on all ranks, so that collectives on them match."""
        mesh = self.build_device_mesh()
        shapes = same_draws(st.tuples(st.integers(1, 9), st.integers(1, 9)), 8)
        self.assertEqual(len(shapes), 8)
        for shape in shapes:
            whole = counting(*shape)
            self.assertEqual(distribute_tensor(whole, mesh, [Shard(1)]).full_tensor(), whole)

    def test_group_of_with_comms(self) -> None:
        """``with_comms`` makes a group for the method only and passes its arguments and name through."""
        had_one = dist.is_initialized()

        @with_comms(eager_init=False, backend=None)
        def method(case: Any, number: int, *, word: str) -> None:
            """A body of a test."""
            self.assertIs(case, self)
            self.assertEqual((number, word, dist.get_world_size()), (3, "three", 4))

        method(self, 3, word="three")
        self.assertEqual((method.__name__, method.__doc__), ("method", "A body of a test."))
        self.assertEqual(dist.is_initialized(), had_one)
        method(self, 3, word="three")


def _drawn(seed: int) -> torch.Tensor:
    """Returns three random numbers of a seed, without the generators that tests use."""
    return torch.rand(3, generator=torch.Generator().manual_seed(seed))


class Faulty(DTensorTestBase):
    """Faulty tests under ``with_comms``; ``tearDownRank`` prints whether a group is left."""

    def tearDownRank(self) -> None:
        print(f"group left: {dist.is_initialized()}")

    @with_comms
    def test_body_raises(self) -> None:
        """Raises on every rank."""
        raise ValueError("the body's own error")

    @with_comms
    def test_one_rank_raises(self) -> None:
        """Rank 2 raises while the others wait for it."""
        if self.rank == 2:
            raise ValueError("rank 2's own error")
        dist.all_reduce(torch.ones(1))

    @with_comms(backend="pigeon")
    def test_unknown_backend(self) -> None:
        """Asks for a backend that torch does not know, so that the body never runs."""
        raise AssertionError("the body ran")

    @with_comms(backend="mpi")
    def test_backend_that_this_build_lacks(self) -> None:
        """Asks for a backend that this build lacks, so that the body never runs."""
        raise AssertionError("the body ran")

    @with_comms
    def test_skips(self) -> None:
        """Skips on every rank."""
        self.skipTest("not today")

    @with_comms
    def test_destroys_the_group_itself(self) -> None:
        """Destroys the group and passes."""
        dist.destroy_process_group()

    def test_catches_what_the_body_raised(self) -> None:
        """Catches an error of a ``with_comms`` body and goes on with a group that it makes itself."""
        with self.assertRaises(ValueError):
            Faulty.test_body_raises.__get__(self)()
        self.init_pg(False)
        total = torch.ones(1)
        dist.all_reduce(total)
        self.assertEqual(total, torch.tensor([4.0]))
        self.destroy_pg()

    @with_comms
    def test_operator_differs(self) -> None:
        """Runs an operator that is right on plain tensors and wrong on DTensors."""
        mesh = self.build_device_mesh()
        self._test_op(mesh, lambda x: x + 1 if isinstance(x, DTensor) else x, counting(4, 4))

    @with_comms
    def test_operator_without_tensors(self) -> None:
        """Gives ``_test_op`` no tensor to distribute, so that nothing would be tested."""
        self._test_op(self.build_device_mesh(), lambda number: torch.ones(2) * number, 3)


class KeepsItsMesh(DTensorContinuousTestBase):
    """A case on two ranks that keeps its mesh as an attribute."""

    world_size = 2

    def test_keeps_its_mesh(self) -> None:
        """Passes."""
        self.mesh = init_device_mesh(self.device_type, (1, 2))
        whole = distribute_tensor(counting(4), self.mesh, [Replicate(), Shard(0)]).full_tensor()
        self.assertEqual(whole, counting(4))


class KeepsMore(DTensorContinuousTestBase):
    """A case on two ranks with groups and meshes of the class, or that a test does not get to end."""

    world_size = 2
    group: Any = None

    @classmethod
    def _init_pg(cls, rank: int, world_size: int, rdvz_file: str) -> None:
        super()._init_pg(rank, world_size, rdvz_file)
        cls.group = dist.new_group([0, 1])

    def test_group_of_the_class(self) -> None:
        """Uses the class's group, which lasts as long as the ranks, and leaves a mesh."""
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=self.group)
        self.assertEqual(tensor, torch.tensor([2.0]))
        init_device_mesh("cpu", (1, 2))

    def test_mesh_of_the_class(self) -> None:
        """Uses a mesh of the class, which each test makes if it is not there."""
        cls: Any = type(self)
        if not hasattr(cls, "mesh"):
            cls.mesh = init_device_mesh("cpu", (1, 2))
        whole = distribute_tensor(counting(4), cls.mesh, [Replicate(), Shard(0)]).full_tensor()
        self.assertEqual(whole, counting(4))

    def test_skips_after_a_mesh(self) -> None:
        init_device_mesh("cpu", (1, 2))
        self.skipTest("not today")

    def test_destroys_the_group_itself(self) -> None:
        dist.destroy_process_group()


class Unsized(DTensorContinuousTestBase):
    """A case whose world size is a property."""

    @property
    def world_size(self) -> int:
        return 2

    def test_size(self) -> None:
        self.assertEqual(self.build_device_mesh().size(), 2)


class LeavesLocally(patches.LeavingTests, LocalDTensorTestBase):
    """Tests that leave something replaced in the process that simulates all ranks."""

    def _leaves(self) -> bool:
        return True


class FaultyLocal(LocalDTensorTestBase):
    """Faulty tests in a process that simulates all ranks."""

    @with_comms
    def test_fails_on_two_ranks(self) -> None:
        """Compares a tensor that is wrong on ranks 1 and 3."""
        odd = map_local_for_rank(self.rank, lambda rank: torch.full((2,), float(rank % 2)))
        self.assertEqual(odd, torch.zeros(2))

    @with_comms
    def test_unequal_on_some_ranks(self) -> None:
        """Compares tensors and integers that must differ and are equal on some ranks."""
        odd = map_local_for_rank(self.rank, lambda rank: torch.full((2,), float(rank % 2)))
        self.assertNotEqual(odd, torch.full((2,), 7.0))
        self.assertNotEqual(self.rank, 4)
        with self.assertRaisesRegex(AssertionError, "on rank 3 of the 4"):
            self.assertNotEqual(self.rank, 3)
        self.assertNotEqual(odd, torch.zeros(2))

    @with_comms
    def test_dtensors_differ_on_one_rank(self) -> None:
        """Compares DTensors that differ in placements, and then in the local part of rank 2."""
        mesh = self.build_device_mesh()
        whole = distribute_tensor(counting(8), mesh, [Shard(0)])
        self.assertEqual(whole, distribute_tensor(counting(8), mesh, [Shard(0)]))
        self.assertNotEqual(whole, distribute_tensor(counting(8) + 1, mesh, [Shard(0)]))
        self.assertNotEqual(whole, DTensor.from_local(whole.to_local(), mesh, [Partial()]))
        other = map_local_for_rank(self.rank, lambda rank: torch.arange(2.0) + 2 * rank + (rank == 2))
        self.assertEqual(whole, DTensor.from_local(other, mesh, [Shard(0)]))

    @with_comms
    def test_branches_on_its_rank(self) -> None:
        """Branches on the simulated rank, where no process could take the branch of rank 1 alone."""
        if self.rank == 1:
            self.fail("rank 1 looked")

    def test_dies(self) -> None:
        """Ends the process without a report."""
        os._exit(3)

    def test_hangs(self) -> None:
        """Hangs."""
        import threading

        threading.Event().wait()

    def test_leaves_its_mark(self) -> None:
        """Changes a module-level variable, which the harness cannot know of."""
        _marks.append("left by test_leaves_its_mark")

    def test_finds_no_mark(self) -> None:
        """Passes only if no other test has changed the variable in this process."""
        self.assertEqual(_marks, [])

    def test_always_fails(self) -> None:
        """Fails in every process."""
        self.fail("whatever ran before")


_marks: list[str] = []


class ManyLocal(LocalDTensorTestBase):
    """Tests in a process that simulates more ranks than any machine has processors."""

    world_size: Any = 1024

    @with_comms
    def test_spreads(self) -> None:
        """Cuts a tensor up where each rank has it, and puts it together again."""
        mesh = self.build_device_mesh()
        whole = torch.arange(2.0 * self.world_size)
        parts = distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None)
        self.assertEqual(parts.redistribute(mesh, [Replicate()]).to_local(), whole)

    @with_comms
    def test_scatters(self) -> None:
        """Has rank 0 scatter a tensor, for which torch makes a tensor for each pair of ranks."""
        distribute_tensor(torch.arange(2.0 * self.world_size), self.build_device_mesh(), [Shard(0)])


class SkipsOnThreads(DTensorTestBase):
    """Skips with a group that is just made, on threads."""

    world_size = 2
    rank_modes = ("threads",)

    @with_comms
    def test_skips(self) -> None:
        """Skips on each rank."""
        raise unittest.SkipTest("not today")


def play(case: Any, method: str, **environ: str) -> tuple[unittest.TestResult, TestOutcome]:
    """Runs one test in this process; returns unittest's result and the harness's outcome."""
    test, result = case(method), unittest.TestResult()
    with mock.patch.dict(os.environ, {"HARNESS_GRACE": "0.2", **environ}):
        test.run(result)
    outcome = test._harness_outcome
    assert outcome is not None, result
    return result, outcome


def said(result: unittest.TestResult) -> str:
    """Returns all that unittest would print."""
    return "\n".join(text for _, text in (*result.failures, *result.errors, *result.skipped))
