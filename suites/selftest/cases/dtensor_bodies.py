"""DTensor tests that know nothing of their rank mode, and faulty ones with their classes."""

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


def counting(*shape: int) -> torch.Tensor:
    """A tensor of that shape that counts from 0: no element can take another's place unseen."""
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


# Any base of DTensor tests may follow it; the type checker is to assume none of them.
_Case: Any = object


class Bodies(_Case):  # type: ignore[misc]  # see _Case
    """The tests that every rank mode has to pass. Four ranks."""

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
        """Six rows on four ranks are 2, 2, 2 and none."""
        mesh, whole = self.build_device_mesh(), counting(6, 2)
        sharded = distribute_tensor(whole, mesh, [Shard(0)])
        mine = map_local_for_rank(self.rank, lambda rank: whole[2 * rank : 2 * rank + 2])
        self.assertEqual(sharded.to_local(), mine)
        self.assertEqual(sharded.full_tensor(), whole)

    @with_comms
    def test_redistribute(self) -> None:
        """Every placement leads to every other."""
        mesh, whole = self.build_device_mesh(), counting(8, 4)
        kinds = [Replicate(), Shard(0), Shard(1)]
        for before in kinds:
            for after in kinds:
                moved = distribute_tensor(whole, mesh, [before]).redistribute(placements=[after])
                self.assertEqual(moved.placements, (after,))
                self.assertEqual(moved.full_tensor(), whole, f"{before} to {after}")

    @with_comms
    def test_partial(self) -> None:
        """What each rank has a part of is the sum of the parts: 0 + 1 + 2 + 3."""
        mesh = self.build_device_mesh()
        part = map_local_for_rank(self.rank, lambda rank: torch.full((4, 4), float(rank)))
        summed = DTensor.from_local(part, mesh, [Partial()])
        self.assertEqual(summed.full_tensor(), torch.full((4, 4), 6.0))
        self.assertEqual(summed.redistribute(placements=[Shard(1)]).full_tensor(), torch.full((4, 4), 6.0))

    @with_comms
    def test_matmul(self) -> None:
        """The placement of a product follows from those of its factors; so do the gradients."""
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
        """Two by two: each dimension shards a tensor's own, and is a mesh of its own."""
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
        """``_test_op`` and ``_test_op_on_dtensor`` find nothing wrong with what is right."""
        mesh = self.build_device_mesh()
        self._test_op(mesh, torch.add, counting(8, 4), counting(8, 4), alpha=2)
        self._test_op(mesh, torch.unbind, counting(2, 4))
        sharded = distribute_tensor(counting(8, 4), mesh, [Shard(1)])
        self._test_op_on_dtensor(torch.softmax, sharded, dim=0)

    @with_comms
    def test_random_numbers_of_a_rank(self) -> None:
        """Each rank draws its own numbers, the same in every mode; before that all draw the same ones."""
        self.assertEqual(torch.rand(3), map_local_for_rank(self.rank, lambda _: _drawn(base_seed())))
        self.init_manual_seed_for_rank()
        self.assertEqual(torch.rand(3), map_local_for_rank(self.rank, _drawn))

    @with_comms
    def test_sub_tests(self) -> None:
        """``run_subtests`` takes every combination, the last keyword fastest."""
        mesh, seen = self.build_device_mesh(), []

        def check(base: int, dim: int, size: int) -> None:
            whole = counting(size, size) + base
            seen.append((dim, size))
            self.assertEqual(distribute_tensor(whole, mesh, [Shard(dim)]).full_tensor(), whole)

        self.run_subtests({"dim": [0, 1], "size": [4, 5]}, check, 7)
        self.assertEqual(seen, [(0, 4), (0, 5), (1, 4), (1, 5)])

    @with_comms
    def test_drawn_shapes(self) -> None:
        """Hypothesis's shapes are the same on all ranks, so that all can meet in collectives about them."""
        mesh = self.build_device_mesh()
        shapes = same_draws(st.tuples(st.integers(1, 9), st.integers(1, 9)), 8)
        self.assertEqual(len(shapes), 8)
        for shape in shapes:
            whole = counting(*shape)
            self.assertEqual(distribute_tensor(whole, mesh, [Shard(1)]).full_tensor(), whole)

    def test_group_of_with_comms(self) -> None:
        """It is there in the method, whose arguments and name come through, and gone afterwards."""
        had_one = dist.is_initialized()

        @with_comms(eager_init=False, backend=None)
        def method(case: Any, number: int, *, word: str) -> None:
            """A body."""
            self.assertIs(case, self)
            self.assertEqual((number, word, dist.get_world_size()), (3, "three", 4))

        method(self, 3, word="three")
        self.assertEqual((method.__name__, method.__doc__), ("method", "A body."))
        self.assertEqual(dist.is_initialized(), had_one)
        method(self, 3, word="three")


def _drawn(seed: int) -> torch.Tensor:
    """What three numbers are from a seed, without the generators that tests use."""
    return torch.rand(3, generator=torch.Generator().manual_seed(seed))


class Faulty(DTensorTestBase):
    """What ``with_comms`` does when something goes wrong."""

    def tearDownRank(self) -> None:
        print(f"group left: {dist.is_initialized()}")

    @with_comms
    def test_body_raises(self) -> None:
        """On every rank."""
        raise ValueError("the body's own error")

    @with_comms
    def test_one_rank_raises(self) -> None:
        """The others wait for it."""
        if self.rank == 2:
            raise ValueError("rank 2's own error")
        dist.all_reduce(torch.ones(1))

    @with_comms(backend="pigeon")
    def test_unknown_backend(self) -> None:
        """Never runs."""
        raise AssertionError("the body ran")

    @with_comms(backend="mpi")
    def test_backend_that_this_build_lacks(self) -> None:
        """Never runs."""
        raise AssertionError("the body ran")

    @with_comms
    def test_skips(self) -> None:
        """On every rank."""
        self.skipTest("not today")

    @with_comms
    def test_destroys_the_group_itself(self) -> None:
        """Passes."""
        dist.destroy_process_group()

    def test_catches_what_the_body_raised(self) -> None:
        """And goes on with a group of its own."""
        with self.assertRaises(ValueError):
            Faulty.test_body_raises.__get__(self)()
        self.init_pg(False)
        total = torch.ones(1)
        dist.all_reduce(total)
        self.assertEqual(total, torch.tensor([4.0]))
        self.destroy_pg()

    @with_comms
    def test_operator_differs(self) -> None:
        """An operator that is right on plain tensors and wrong on DTensors."""
        mesh = self.build_device_mesh()
        self._test_op(mesh, lambda x: x + 1 if isinstance(x, DTensor) else x, counting(4, 4))

    @with_comms
    def test_operator_without_tensors(self) -> None:
        """Nothing to distribute is nothing tested."""
        self._test_op(self.build_device_mesh(), lambda number: torch.ones(2) * number, 3)


class KeepsItsMesh(DTensorContinuousTestBase):
    """Two ranks; the mesh is an attribute of the case."""

    world_size = 2

    def test_keeps_its_mesh(self) -> None:
        """Passes."""
        self.mesh = init_device_mesh(self.device_type, (1, 2))
        whole = distribute_tensor(counting(4), self.mesh, [Replicate(), Shard(0)]).full_tensor()
        self.assertEqual(whole, counting(4))


class KeepsMore(DTensorContinuousTestBase):
    """Two ranks; groups and meshes that are not the test's own, or that it does not get to end."""

    world_size = 2
    group: Any = None

    @classmethod
    def _init_pg(cls, rank: int, world_size: int, rdvz_file: str) -> None:
        super()._init_pg(rank, world_size, rdvz_file)
        cls.group = dist.new_group([0, 1])

    def test_group_of_the_class(self) -> None:
        """It lasts as long as the ranks."""
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=self.group)
        self.assertEqual(tensor, torch.tensor([2.0]))
        init_device_mesh("cpu", (1, 2))

    def test_mesh_of_the_class(self) -> None:
        """One that the first test makes, and each further test where it is not there."""
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
    """A world size that is a property."""

    @property
    def world_size(self) -> int:
        return 2

    def test_size(self) -> None:
        self.assertEqual(self.build_device_mesh().size(), 2)


class FaultyLocal(LocalDTensorTestBase):
    """What can happen to a process that plays all ranks."""

    @with_comms
    def test_fails_on_two_ranks(self) -> None:
        """A wrong tensor on ranks 1 and 3."""
        odd = map_local_for_rank(self.rank, lambda rank: torch.full((2,), float(rank % 2)))
        self.assertEqual(odd, torch.zeros(2))

    @with_comms
    def test_unequal_on_some_ranks(self) -> None:
        """Tensors and integers that are to differ, and are equal on ranks 0 and 2, or on rank 3."""
        odd = map_local_for_rank(self.rank, lambda rank: torch.full((2,), float(rank % 2)))
        self.assertNotEqual(odd, torch.full((2,), 7.0))
        self.assertNotEqual(self.rank, 4)
        with self.assertRaisesRegex(AssertionError, "on rank 3 of the 4"):
            self.assertNotEqual(self.rank, 3)
        self.assertNotEqual(odd, torch.zeros(2))

    @with_comms
    def test_dtensors_differ_on_one_rank(self) -> None:
        """Local parts that only rank 2 has otherwise; then placements."""
        mesh = self.build_device_mesh()
        whole = distribute_tensor(counting(8), mesh, [Shard(0)])
        self.assertEqual(whole, distribute_tensor(counting(8), mesh, [Shard(0)]))
        self.assertNotEqual(whole, distribute_tensor(counting(8) + 1, mesh, [Shard(0)]))
        self.assertNotEqual(whole, DTensor.from_local(whole.to_local(), mesh, [Partial()]))
        other = map_local_for_rank(self.rank, lambda rank: torch.arange(2.0) + 2 * rank + (rank == 2))
        self.assertEqual(whole, DTensor.from_local(other, mesh, [Shard(0)]))

    @with_comms
    def test_branches_on_its_rank(self) -> None:
        """No process of its own takes the branch of rank 1."""
        if self.rank == 1:
            self.fail("rank 1 looked")

    def test_dies(self) -> None:
        """Without a word."""
        os._exit(3)

    def test_hangs(self) -> None:
        """For ever."""
        import threading

        threading.Event().wait()

    def test_leaves_its_mark(self) -> None:
        """A module-level variable, which the harness cannot know of."""
        _marks.append("left by test_leaves_its_mark")

    def test_finds_no_mark(self) -> None:
        """Passes in a process of its own only."""
        self.assertEqual(_marks, [])

    def test_always_fails(self) -> None:
        """Wherever it runs."""
        self.fail("whatever ran before")


_marks: list[str] = []


def play(case: Any, method: str, **environ: str) -> tuple[unittest.TestResult, TestOutcome]:
    """One test in this process: what unittest has of it, and the harness's own account."""
    test, result = case(method), unittest.TestResult()
    with mock.patch.dict(os.environ, {"HARNESS_GRACE": "0.2", **environ}):
        test.run(result)
    outcome = test._harness_outcome
    assert outcome is not None, result
    return result, outcome


def said(result: unittest.TestResult) -> str:
    """All that unittest would print."""
    return "\n".join(text for _, text in (*result.failures, *result.errors, *result.skipped))
