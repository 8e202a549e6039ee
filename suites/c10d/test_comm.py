"""What a gloo group knows of itself: debug levels, sequence numbers, ranks, and who may call what on it."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist

from harness import MultiProcessTestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, current, needs
from suites.c10d.test_python_backends import DummyProcessGroup
from suites.target_device import OnTargetDevice

#: Below the harness's deadline for a test.
TIMEOUT = timedelta(seconds=60)
DEBUG = "TORCH_DISTRIBUTED_DEBUG"


class InOneGroup(OnTargetDevice):
    """A default group on the target, and tensors on its device."""

    def init(self):
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group(
            current().backend, store=store, rank=self.rank, world_size=self.world_size, timeout=TIMEOUT
        )


class GroupNumbers(InOneGroup):
    """What groups count and who is in them, at any world size."""

    def numbers(self, group, through):
        """Return the sequence number that each member has for ``group``, told over another one."""
        found = [None] * dist.get_world_size(through)
        mine = (self.rank, group._get_sequence_number_for_group())
        dist.all_gather_object(found, mine, group=through)
        self.assertEqual([rank for rank, _ in found], dist.get_process_group_ranks(through))
        return [number for _, number in found]

    def check_incremented(self, ranks):
        """Check that ten all-reduces count ten, and that a rank which calls one more is ahead by it."""
        group, verifier = dist.new_group(ranks), dist.new_group(ranks)
        if self.rank not in ranks:
            return
        before = group._get_sequence_number_for_group()
        for turn in range(10):
            tensor = torch.tensor([self.rank + 1.0])
            dist.all_reduce(tensor, group=group)
            self.assertEqual(tensor.item(), sum(ranks) + len(ranks))
            self.assertEqual(self.numbers(group, verifier), [before + turn + 1] * len(ranks))
        if len(ranks) > 2:
            ahead = [rank for rank in ranks if rank not in (0, 2)]
            late = torch.ones(1)
            works = [dist.all_reduce(late, group=group, async_op=True)] if self.rank in ahead else []
            expected = [before + 10 + (rank in ahead) for rank in ranks]
            self.assertEqual(self.numbers(group, verifier), expected)
            works = works or [dist.all_reduce(late, group=group, async_op=True)]
            works[0].wait()
            self.assertEqual(late.item(), len(ranks))

    @needs(Capability.SEQUENCE_NUMBERS)
    def test_sequence_num_set_default_pg_gloo(self):
        self.init()
        self.assertEqual(self.numbers(dist.group.WORLD, dist.new_group()), [0] * self.world_size)

    @needs(Capability.SEQUENCE_NUMBERS)
    def test_sequence_num_set_gloo_new_group(self):
        self.init()
        group, verifier = dist.new_group([0, 1]), dist.new_group([0, 1])
        if self.rank in (0, 1):
            self.assertEqual(self.numbers(group, verifier), [0, 0])

    @needs(Capability.SEQUENCE_NUMBERS)
    def test_sequence_num_incremented_gloo_default(self):
        self.init()
        self.check_incremented(list(range(self.world_size)))

    def test_gloo_warn_not_in_group(self):
        self.init()
        evens = list(range(0, self.world_size, 2))
        group = dist.new_group(evens)
        tensor = torch.full((2,), self.rank + 1.0)
        outputs = [torch.zeros(2) for _ in evens]
        sent = torch.full((2,), self.rank + 5.0)
        calls = {
            "all_gather": lambda: dist.all_gather(outputs, tensor, group=group),
            "all_reduce": lambda: dist.all_reduce(tensor, group=group),
            "barrier": lambda: dist.barrier(group=group),
            "broadcast": lambda: dist.broadcast(sent, 0, group=group),
        }
        for name, call in calls.items():
            if self.rank in evens:
                call()
            else:
                with self.assertWarnsRegex(UserWarning, f"{name}.*does not belong to"):
                    self.assertIsNone(call())
        inside = self.rank in evens
        total = sum(rank + 1.0 for rank in evens)
        self.assertEqual(tensor, torch.full((2,), total if inside else self.rank + 1.0))
        self.assertEqual(sent, torch.full((2,), 5.0 if inside else self.rank + 5.0))
        self.assertEqual(
            outputs, [torch.full((2,), rank + 1.0) if inside else torch.zeros(2) for rank in evens]
        )

    def test_gloo_rank_membership(self):
        self.init()
        group = dist.new_group([1])
        stranger = DummyProcessGroup(self.rank, self.world_size)
        self.assertEqual(dist.get_group_rank(group, 1), 0)
        self.assertEqual(dist.get_global_rank(group, 0), 1)
        self.assertEqual(dist.get_process_group_ranks(group), [1])
        for translate, outside in ((dist.get_group_rank, 0), (dist.get_global_rank, 1)):
            with self.assertRaisesRegex(ValueError, "not part of group"):
                translate(group, outside)
            with self.assertRaisesRegex(ValueError, "not registered"):
                translate(stranger, 0)

    @needs(operation="broadcast", dtype="bool")
    def test_bool_tensors(self):
        self.init()
        held = torch.tensor([1, 0, 0, 1], dtype=torch.bool)
        tensor = held.clone() if self.rank == 0 else torch.zeros(4, dtype=torch.bool)
        dist.broadcast(tensor, 0)
        self.assertEqual(tensor, held)


class CommTest(GroupNumbers, MultiProcessTestCase):
    """Two ranks on gloo."""

    world_size = 2

    def test_debug_level(self):
        with mock.patch.dict(os.environ):
            self.addCleanup(dist.set_debug_level, dist.get_debug_level())
            dist.set_debug_level(dist.DebugLevel.INFO)
            os.environ.pop(DEBUG, None)
            dist.set_debug_level_from_env()
            self.assertEqual(dist.get_debug_level(), dist.DebugLevel.OFF)
            for level in ("OFF", "INFO", "DETAIL"):
                for spelt in (level, level.lower(), level[0].lower() + level[1:-1] + level[-1].lower()):
                    with self.subTest(value=spelt):
                        os.environ[DEBUG] = spelt
                        dist.set_debug_level_from_env()
                        self.assertEqual(dist.get_debug_level(), getattr(dist.DebugLevel, level))
            for wrong in ("foo", "0", "1", "-1"):
                with self.subTest(value=wrong):
                    os.environ[DEBUG] = wrong
                    with self.assertRaisesRegex(ValueError, f"The value of {DEBUG} must"):
                        dist.set_debug_level_from_env()

    def test_tensor_dtype_mismatch(self):
        self.init()
        one, half = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float16)
        ones, mixed = [one, one], [one, half]
        for name, arguments in (
            ("all_gather", (mixed, one)),
            ("all_gather", (ones, half)),
            ("all_gather_coalesced", ([mixed], ones)),
            ("all_gather_coalesced", ([ones], mixed)),
            ("all_reduce_coalesced", (mixed,)),
            ("reduce_scatter", (one, mixed)),
            ("reduce_scatter", (half, ones)),
            ("all_to_all_single", (half, one)),
            ("all_to_all", (mixed, ones)),
            ("all_to_all", (ones, mixed)),
            ("scatter", (one, mixed)),
            ("scatter", (half, ones)),
            ("gather", (half, ones)),
            ("gather", (one, mixed)),
        ):
            with (
                self.subTest(collective=name, tensors=len(arguments)),
                self.assertRaisesRegex(ValueError, "tensors with different dtypes"),
            ):
                getattr(dist, name)(*arguments)

    def test_tensor_dtype_complex(self):
        self.init()
        real = torch.tensor([self.rank + 1.0, self.rank + 10.0])
        for mine in (real, torch.view_as_complex(real)):
            for complex_entry in (False, True):
                with self.subTest(input=str(mine.dtype), complex_entry=complex_entry):
                    outputs = [torch.zeros(2), torch.zeros(2)]
                    listed = [outputs[0], torch.view_as_complex(outputs[1]) if complex_entry else outputs[1]]
                    dist.all_gather(listed, mine)
                    self.assertEqual(outputs, [torch.tensor([1.0, 10.0]), torch.tensor([2.0, 11.0])])


class FourRankCommTest(GroupNumbers, MultiProcessTestCase):
    """The same numbers and warnings on four ranks, where groups have outsiders and members get ahead."""

    world_size = 4

    @needs(Capability.SEQUENCE_NUMBERS)
    def test_sequence_num_incremented_gloo_subgroup(self):
        self.init()
        self.check_incremented([0, 1, 2])


@needs(Capability.SUB_GROUPS)
class LargeCommTest(InOneGroup, MultiProcessTestCase):
    """Groups of four ranks that only their members make."""

    world_size = 4

    def pair(self, ranks):
        return dist.new_group(ranks, use_local_synchronization=True)

    def check_gathers(self, group, ranks, mark):
        """Check that the pair gathers what its members say, and nobody else."""
        outputs = [torch.zeros(2) for _ in ranks]
        dist.all_gather(outputs, torch.tensor([mark, self.rank + 0.0]), group=group)
        self.assertEqual(outputs, [torch.tensor([mark, rank + 0.0]) for rank in ranks])

    def test_new_group_local_sync(self):
        self.init()
        inside = [self.rank, (self.rank + 2) % self.world_size]
        outside = [rank for rank in range(self.world_size) if rank not in inside]
        self.assertIsNone(self.pair(outside))
        group = self.pair(inside)
        self.assertIsInstance(group, dist.ProcessGroup)
        self.assertEqual(dist.get_group_rank(group, self.rank), sorted(inside).index(self.rank))
        self.assertEqual(dist.get_process_group_ranks(group), sorted(inside))
        self.check_gathers(group, sorted(inside), self.rank % 2 + 10.0)

    def test_new_group_local_sync_sanity_check(self):
        self.init()
        index = self.rank // 2
        ranks = [2 * index, 2 * index + 1]
        self.check_gathers(self.pair(ranks), ranks, float(index))

    def test_new_group_local_sync_duplicate_pg(self):
        self.init()
        index = self.rank // 2
        ranks = [2 * index, 2 * index + 1]
        first, second = self.pair(ranks), self.pair(ranks)
        self.assertNotEqual(first.group_name, second.group_name)
        self.check_gathers(first, ranks, float(index))
        self.check_gathers(second, ranks, index + 10.0)


if __name__ == "__main__":
    run_tests()
