"""Tests the fuzzer of collectives on ranks: sub-groups are made for a program, and destroyed."""

from __future__ import annotations

import torch.distributed as dist

from harness import MultiProcContinuousTest, run_tests
from harness.fuzzing.collectives import CollectivePrograms
from harness.fuzzing.hunted import Place
from harness.fuzzing.program import CollectiveStep, Program

PROGRAM = Program(3, (CollectiveStep("all_reduce", (0, 2)), CollectiveStep("broadcast", (0, 1, 2), root=2)))


class CollectiveProgramsTest(MultiProcContinuousTest):
    world_size = 3

    @classmethod
    def backend_str(cls) -> str:
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        return "cpu"

    def test_groups_are_destroyed(self) -> None:
        before = len(dist.distributed_c10d._world.pg_map)
        store = dist.distributed_c10d._get_default_store()
        CollectivePrograms().run(PROGRAM, Place(self.rank, 3, dist.PrefixStore("one", store)))
        self.assertEqual(len(dist.distributed_c10d._world.pg_map), before)

    def test_wrong_results_are_told(self) -> None:
        fuzzer, store = CollectivePrograms(), dist.distributed_c10d._get_default_store()
        real = dist.all_reduce
        dist.all_reduce = lambda *args, **kwargs: None
        try:
            if self.rank == 1:
                fuzzer.run(PROGRAM, Place(self.rank, 3, dist.PrefixStore("two", store)))
            else:
                with self.assertRaisesRegex(AssertionError, "has got of step 0"):
                    fuzzer.run(PROGRAM, Place(self.rank, 3, dist.PrefixStore("two", store)))
        finally:
            dist.all_reduce = real


if __name__ == "__main__":
    run_tests()
