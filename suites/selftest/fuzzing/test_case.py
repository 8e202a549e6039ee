"""Tests fuzzing on ranks: a right backend passes, and each planted fault is found within 200 programs."""

from __future__ import annotations

import unittest
from typing import Any

from harness import UsageError
from harness.fuzzing import fuzz
from harness.ranks.processes import pool
from harness.requirements import timeout
from suites.selftest.faults.rows import OnForkServer, Played
from suites.selftest.fuzzing import planted

# Seconds that the slowest of these tests takes on an idle machine, at most; beside a load of 40 it takes 160.
ALONE_S = 60


class Fuzzing(OnForkServer):
    """``ProgramTestCase``, by running the cases of ``planted`` in this process."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(pool.retire_pool)

    def fuzz(self, case: type[planted.Planted], **environ: str) -> Played:
        return self.play(case, "test_programs", **environ)

    def found(self, case: type[planted.Planted], *said: str, verdict: str = "FAIL") -> Played:
        played = self.fuzz(case)
        self.assertEqual(played.verdict, verdict, played.text)
        for words in said:
            self.assertIn(words, played.text)
        return played

    def test_finds_nothing_where_nothing_is_wrong(self) -> None:
        played = self.fuzz(planted.RightTest)
        self.assertEqual(played.verdict, "pass", played.text)

    def test_as_many_programs_as_asked_for(self) -> None:
        counted = self.fuzz(planted.CountingTest)
        self.assertIn("program 7 of all", counted.text)
        self.assertNotIn("program 8 of all", counted.text)
        counted = self.fuzz(planted.CountingTest, HARNESS_EXAMPLES="3")
        self.assertIn("program 3 of all", counted.text)
        self.assertNotIn("program 4 of all", counted.text)

    def test_a_contribution_is_dropped(self) -> None:
        self.found(
            planted.DropsAPartTest,
            "Program(world_size=3, steps=(CollectiveStep(kind='all_reduce', group=(0, 1, 2)),))",
            "tensor([3., 5.])\n    for\n    tensor([6., 9.])",
            "work0 = dist.all_reduce(inputs0[0], dist.ReduceOp.SUM, group=groups[(0, 1, 2)], async_op=False)",
            'init_process_group("planted"',
        )

    def test_ranks_are_mixed_up(self) -> None:
        self.found(
            planted.MixesUpRanksTest,
            "Program(world_size=3, steps=(CollectiveStep(kind='all_gather', group=(0, 1, 2)),))",
        )

    def test_a_wait_is_skipped(self) -> None:
        """A skipped wait is found in a broadcast; it is a race, so the size of the program is left open."""
        self.found(planted.SkipsAWaitTest, "CollectiveStep(kind='broadcast'")

    def test_a_timeout_is_not_told(self) -> None:
        self.found(
            planted.GivesUpTest,
            "did not wait for the missing rank in step 0",
            "steps=(CollectiveStep(kind='all_reduce', group=(0, 1, 2), delay=0, missing=0),))",
            'assert expired(work0), f"rank {rank} did not wait for rank 0"',
        )

    def test_a_coalesced_tensor_is_left_out(self) -> None:
        self.found(
            planted.ReducesTheFirstTest,
            "(tensor 1), CollectiveStep(kind='all_reduce_coalesced'",
            "Program(world_size=3, steps=(CollectiveStep(kind='all_reduce_coalesced', group=(0, 1, 2)),))",
        )

    def test_a_managed_call_is_left_out(self) -> None:
        self.found(
            planted.ScattersTheFirstTest,
            "(tensor 1), CollectiveStep(kind='reduce_scatter_tensor'",
            "steps=(CollectiveStep(kind='reduce_scatter_tensor', group=(0, 1, 2), managed=True),))",
            "with dist.distributed_c10d._coalescing_manager(groups[(0, 1, 2)], async_ops=False) as work0:",
        )

    def test_a_list_of_objects_is_turned(self) -> None:
        self.found(
            planted.TurnsListsTest,
            "Program(world_size=3, steps=(Message(source=0, target=1, group=(0, 1, 2), objects=True),))",
            "dist.recv_object_list(outputs0, 0, group=groups[(0, 1, 2)])",
        )

    def test_gaps_are_not_seen(self) -> None:
        self.found(
            planted.ReducesTheMemoryTest,
            "Program(world_size=3, steps=(CollectiveStep(kind='reduce_scatter_tensor', group=(0, 1, 2), "
            "views=True, gaps=True),))",
        )

    def test_objects_are_mixed_up(self) -> None:
        self.found(
            planted.ReversesObjectsTest,
            "Program(world_size=3, steps=(CollectiveStep(kind='scatter_object_list', group=(0, 1, 2)),))",
            "dist.scatter_object_list(outputs0 or None, inputs0 or None, 0, group=groups[(0, 1, 2)])",
        )

    @timeout(4 * ALONE_S)
    def test_a_group_made_later(self) -> None:
        """What is wrong with groups that a program makes is found where it makes one."""
        self.found(planted.TiresOfGroupsTest, "has got of step 1", "Regroup(group=")

    def test_a_hang(self) -> None:
        self.found(
            planted.HangsTest,
            "timed out",
            "Program(world_size=3, steps=(CollectiveStep(kind='reduce_scatter', group=(0, 1, 2)),))",
            verdict="ERROR",
        )

    def test_a_fault_that_is_known(self) -> None:
        """What ``is_known`` knows of the smallest program fails no test, and the other programs run."""
        played = self.fuzz(planted.KnownFaultTest)
        self.assertEqual(played.verdict, "pass", played.text)

    def test_a_group_that_nobody_made(self) -> None:
        played = self.fuzz(planted.UnknownGroupTest)
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("group (0, 2) is not made: name it in program_groups", played.text)

    def test_a_machine_that_stands_still_once(self) -> None:
        played = self.fuzz(planted.StallsOnceTest)
        self.assertEqual(played.verdict, "pass", played.text)

    def test_a_rank_that_dies(self) -> None:
        self.found(
            planted.DiesTest,
            "exit code 3",
            "Program(world_size=3, steps=(Message(source=0, target=1, group=(0, 1, 2)),))",
            verdict="ERROR",
        )

    def test_other_methods_run_as_ever(self) -> None:
        played = self.play(planted.RightTest, "test_plain")
        self.assertEqual(played.verdict, "pass", played.text)


class Decorating(unittest.TestCase):
    """The arguments of the decorator ``fuzz``."""

    def test_wrong_arguments(self) -> None:
        """Wrong arguments are refused; the first is a missing pair of parentheses, which ran no program."""
        wrong: Any
        for wrong in (lambda self, program: None, 0, True, "50"):
            with self.subTest(wrong), self.assertRaisesRegex(UsageError, "write @fuzz"):
                fuzz(wrong)
        wrong = 3
        with self.assertRaisesRegex(UsageError, "strategy=3.: give a function of the world size"):
            fuzz(strategy=wrong)


if __name__ == "__main__":
    unittest.main()
