"""Self-tests of harness.requirements.merged: how the requirements of one test add up, and the verdict."""

from __future__ import annotations

import pickle
import unittest

from harness import requirements as r
from harness.requirements.kinds import (
    AcceleratorPerRank,
    Accelerators,
    Importable,
    Skipped,
    WorldSizeDemand,
    WorldSizeEven,
)
from harness.requirements.scheduling import CpuSlots, Exclusive, Memory, Slow, Timeout
from suites.selftest.requirements.sample_machines import CPU, CUDA_1


class MergeTest(unittest.TestCase):
    """``merge`` of the requirements of a method and of its class."""

    def test_fields(self) -> None:
        """Amounts take the largest, conditions hold together, and the outermost demand of the method wins."""
        cases: dict[str, tuple[list[r.Requirement], list[r.Requirement], object]] = {
            "world_size": (
                [WorldSizeDemand(size=2, reason=""), WorldSizeDemand(size=3, reason="")],
                [WorldSizeDemand(size=4, reason="")],
                2,
            ),
            "timeout_s": ([], [Timeout(seconds=5.0, reason=""), Timeout(seconds=6.0, reason="")], 5.0),
            "min_gpus": ([Accelerators(count=1, reason="")], [Accelerators(count=2, reason="")], 2),
            "gpu_per_rank": ([AcceleratorPerRank(reason="")], [], True),
            "cpu_slots": ([CpuSlots(count=4, reason="")], [CpuSlots(count=2, reason="")], 4),
            "memory_mb": ([Memory(mebibytes=300, reason="")], [Memory(mebibytes=500, reason="")], 500),
            "slow": ([], [Slow(reason="")], True),
            "exclusive": ([], [Exclusive(reason="")], True),
            "imports": (
                [Importable(module="a", reason=""), Importable(module="b", reason="")],
                [Importable(module="a", reason="")],
                ("a", "b"),
            ),
        }
        for field, (on_method, on_class, expected) in cases.items():
            with self.subTest(field=field):
                self.assertEqual(getattr(r.merge(on_method, on_class), field), expected)

    def test_nothing(self) -> None:
        """A test without requirements has the default in every field."""
        self.assertEqual(r.merge(()), r.Requirements())

    def test_items_are_in_the_order_of_the_verdict(self) -> None:
        """The class's requirements come before the method's, whose order is kept."""
        method, cls = [Slow(reason="a"), Exclusive(reason="b")], [Timeout(seconds=1.0, reason="c")]
        self.assertEqual([item.reason for item in r.merge(method, cls).items], ["c", "a", "b"])

    def test_a_merged_value_is_hashable_and_picklable(self) -> None:
        """The runner keeps requirements in sets and sends them to its workers."""
        merged = r.merge([WorldSizeDemand(size=2, reason="two ranks")])
        self.assertEqual({pickle.loads(pickle.dumps(merged))}, {merged})


class GpusTest(unittest.TestCase):
    """``Requirements.gpus``: the accelerators that a test occupies."""

    def test_a_device_for_each_rank_and_at_least_the_minimum(self) -> None:
        """The larger of the fixed minimum and of one accelerator for each rank counts."""
        for requirements, world_size, expected in (
            (r.Requirements(min_gpus=3, gpu_per_rank=True), 2, 3),
            (r.Requirements(min_gpus=3, gpu_per_rank=True), 4, 4),
            (r.Requirements(min_gpus=3), 4, 3),
            (r.Requirements(), 4, 0),
        ):
            with self.subTest(requirements=requirements, world_size=world_size):
                self.assertEqual(requirements.gpus(world_size), expected)


class UnmetTest(unittest.TestCase):
    """``unmet``: the verdict over all requirements of a test."""

    def test_the_first_unmet_requirement_gives_the_reason(self) -> None:
        """Requirements that are met are passed over, and later ones are not asked."""
        requirements = r.merge(
            [
                Accelerators(count=1, reason="one"),
                Accelerators(count=2, reason="two"),
                Skipped(reason="never"),
            ]
        )
        self.assertEqual(r.unmet(requirements, CPU), "one, found no accelerator")
        self.assertEqual(r.unmet(requirements, CUDA_1), "two, found 1 cuda")

    def test_without_an_occasion(self) -> None:
        """Conditions on the world size hold while it is unknown; slow tests are not asked for."""
        self.assertIsNone(r.unmet(r.merge([WorldSizeEven(reason="even")]), CPU))
        self.assertEqual(r.unmet(r.merge([Slow(reason="slow")]), CPU), "slow")

    def test_a_sandcastle_passes_over_some_requirements_only(self) -> None:
        """Only a requirement that passes in a sandcastle counts as met there."""
        sandcastle = r.RunFacts(sandcastle=True)
        for passes, expected in ((True, None), (False, "never")):
            with self.subTest(passes_in_sandcastle=passes):
                requirements = r.merge([Skipped(reason="never", passes_in_sandcastle=passes)])
                self.assertEqual(r.unmet(requirements, CPU, sandcastle), expected)


if __name__ == "__main__":
    unittest.main()
