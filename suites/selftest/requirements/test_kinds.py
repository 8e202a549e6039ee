"""Which test skips on which machine: tables over decorator, machine, world size and environment."""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from harness import requirements as r
from harness.requirements import probes
from harness.requirements.kinds import NcclVersion
from harness.requirements.machine import wishes_from

CPU = r.MachineFacts()
BARE = r.MachineFacts(backends=frozenset())
CUDA_1 = r.MachineFacts(
    accelerators=(("cuda", 1),), backends=frozenset({"gloo", "nccl"}), nccl_version=(2, 21, 5)
)
CUDA_4 = r.MachineFacts(
    accelerators=(("cuda", 4),), backends=frozenset({"gloo", "nccl"}), nccl_version=(2, 27, 3), multicast=True
)
ROCM = r.MachineFacts(
    accelerators=(("cuda", 8),),
    backends=frozenset({"gloo", "nccl"}),
    rocm=True,
    rocm_version=(6, 2),
    rocm_arch="gfx942",
)
XPU_2 = r.MachineFacts(accelerators=(("xpu", 2),), backends=frozenset({"gloo", "xccl"}))
HPU_8 = r.MachineFacts(accelerators=(("hpu", 8),), backends=frozenset({"gloo", "hccl"}))
MAC = r.MachineFacts(accelerators=(("mps", 1),), platform="darwin")
OWN_2 = r.MachineFacts(accelerators=(("npu", 2),))
WINDOWS = r.MachineFacts(platform="win32", memory_mb=8000)

Decorator = Callable[[Any], Any]


@dataclass
class Row:
    """One test on one machine, and what it must say: part of the reason for a skip, or None."""

    decorator: Decorator
    facts: r.MachineFacts
    expected: str | None
    world_size: int | None = None
    environ: dict[str, str] = field(default_factory=dict)


ACCELERATORS = [
    Row(r.skip_if_lt_x_gpu(2), CPU, "needs 2 accelerators, found no accelerator"),
    Row(r.skip_if_lt_x_gpu(1), CUDA_1, None),
    Row(r.skip_if_lt_x_gpu(2), CUDA_1, "needs 2 accelerators, found 1 cuda"),
    Row(r.skip_if_lt_x_gpu(4), CUDA_4, None),
    Row(r.skip_if_lt_x_gpu(2), XPU_2, None),
    Row(r.skip_if_lt_x_gpu(8), HPU_8, None),
    Row(r.skip_if_lt_x_gpu(2), OWN_2, None),
    Row(r.skip_if_lt_x_gpu(3), OWN_2, "found 2 npu"),
    Row(r.skip_if_lt_x_gpu(1), MAC, "needs 1 accelerator, found 1 mps"),
    Row(r.skip_if_lt_x_gpu(12), CUDA_4, "needs 12 accelerators"),
    Row(r.skip_if_lt_x_gpu(2, allow_cpu=True), CPU, None),
    Row(r.skip_if_lt_x_gpu(2, allow_cpu=True), MAC, None),
    Row(r.skip_if_lt_x_gpu(2, allow_cpu=True), CUDA_1, "needs 2 accelerators"),
    Row(r.require_n_gpus_for_nccl_backend(2, "gloo"), CPU, None),
    Row(r.require_n_gpus_for_nccl_backend(2, "nccl"), CPU, "needs 2 cuda devices"),
    Row(r.require_n_gpus_for_nccl_backend(2, "nccl"), XPU_2, "needs 2 cuda devices, found 2 xpu"),
    Row(r.nccl_skip_if_lt_x_gpu("nccl", 1), CUDA_1, None),
    Row(r.nccl_skip_if_lt_x_gpu("nccl", 2), CUDA_1, "needs 2 cuda devices"),
    Row(r.nccl_skip_if_lt_x_gpu("mpi", 2), CPU, None),
    Row(r.requires_cuda, CPU, "needs a cuda device"),
    Row(r.requires_cuda, CUDA_1, None),
    Row(r.requires_device_type("cpu"), BARE, None),
    Row(r.requires_device_type("xpu", "cuda"), XPU_2, None),
    Row(r.requires_device_type("mps"), MAC, None),
    Row(r.requires_device_type("xpu", "hpu"), CUDA_4, "needs a xpu or hpu device, found 4 cuda"),
    Row(r.requires_world_size(2), CPU, None),
    Row(r.requires_world_size(2), MAC, None),
    Row(r.requires_world_size(2, allow_cpu=False), CPU, "runs on 2 ranks, one accelerator each"),
    Row(r.requires_world_size(2), CUDA_1, "found 1 cuda"),
    Row(r.requires_world_size(4), CUDA_4, None),
]

WORLD_SIZES = [
    Row(r.skip_if_no_gpu, CPU, "found no accelerator", world_size=2),
    Row(r.skip_if_no_gpu, CPU, "found no accelerator"),
    Row(r.skip_if_no_gpu, CUDA_4, None, world_size=4),
    Row(r.skip_if_no_gpu, CUDA_4, "found 4 cuda for 5 ranks", world_size=5),
    Row(r.skip_if_no_gpu, CUDA_4, None, environ={"WORLD_SIZE": "4"}),
    Row(r.skip_if_no_gpu, CUDA_4, "for 5 ranks", environ={"WORLD_SIZE": "5"}),
    Row(r.skip_if_no_gpu, CUDA_4, None, world_size=2, environ={"WORLD_SIZE": "5"}),
    Row(r.skip_if_small_worldsize, CPU, "needs 8 ranks or more, got 7", world_size=7),
    Row(r.skip_if_small_worldsize, CPU, None, world_size=8),
    Row(r.skip_if_small_worldsize, CPU, "got 2", environ={"WORLD_SIZE": "2", "BACKEND": "gloo"}),
    Row(r.skip_if_small_worldsize, CPU, None, environ={"WORLD_SIZE": "2", "BACKEND": "mpi"}),
    Row(r.skip_if_odd_worldsize, CPU, "needs an even number of ranks, got 3", world_size=3),
    Row(r.skip_if_odd_worldsize, CPU, None, world_size=4),
    Row(r.skip_if_odd_worldsize, CPU, None, environ={"WORLD_SIZE": "3", "BACKEND": "MPI"}),
    Row(r.skip_if_odd_worldsize, CPU, "got 1", environ={"WORLD_SIZE": "1"}),
]

BUILDS = [
    Row(r.requires_gloo(), CPU, None),
    Row(r.requires_gloo(), BARE, "needs a torch build with the gloo backend"),
    Row(r.requires_nccl(), CPU, "the nccl backend"),
    Row(r.requires_nccl(), CUDA_1, None),
    Row(r.requires_ucc(), CUDA_4, "the ucc backend"),
    Row(r.requires_mpi(), CPU, "the mpi backend"),
    Row(r.requires_backend("nccl", "gloo"), CPU, None),
    Row(r.requires_backend("nccl", "UCC"), CPU, "the nccl or ucc backend"),
    Row(r.requires_accelerator_dist_backend(), CPU, "nccl or xccl or hccl"),
    Row(r.requires_accelerator_dist_backend(), XPU_2, None),
    Row(r.requires_accelerator_dist_backend(), HPU_8, None),
    Row(r.requires_accelerator_dist_backend(["nccl"]), XPU_2, "the nccl backend"),
    Row(r.requires_nccl_version((2, 27), "a test"), CPU, None),
    Row(
        r.requires_nccl_version((2, 27), "a test"),
        CUDA_1,
        "needs NCCL 2.27 or newer: a test; this build has NCCL 2.21.5",
    ),
    Row(r.requires_nccl_version((2, 27), "a test"), CUDA_4, None),
    Row(r.requires_nccl_shrink(), CUDA_1, "shrinking a group"),
    Row(
        r.requires_nccl_version((2,), "x"), r.MachineFacts(accelerators=(("cuda", 1),)), "has no NCCL backend"
    ),
    Row(r.requires_multicast_support(), CPU, "needs CUDA devices with multicast"),
    Row(r.skip_if_rocm_multiprocess, ROCM, "does not work on ROCm"),
    Row(r.skip_if_rocm_multiprocess, CUDA_4, None),
    Row(r.skipIfRocm, ROCM, "does not work on ROCm: its author says so"),
    Row(r.skipIfRocm(msg="too slow"), ROCM, "does not work on ROCm: too slow"),
    Row(r.skipIfRocm, CPU, None),
    Row(r.skip_if_rocm_arch_multiprocess(("gfx90a", "gfx942")), ROCM, "gfx90a, gfx942"),
    Row(r.skip_if_rocm_arch_multiprocess(("gfx90a",)), ROCM, None),
    Row(r.skip_if_rocm_arch_multiprocess(("gfx942",)), CUDA_4, None),
    Row(r.skip_if_rocm_ver_lessthan_multiprocess((6, 3)), ROCM, "needs ROCm 6.3 or newer, found ROCm 6.2"),
    Row(r.skip_if_rocm_ver_lessthan_multiprocess((6, 2)), ROCM, None),
    Row(r.skip_if_rocm_ver_lessthan_multiprocess(), ROCM, "does not work on any ROCm"),
    Row(r.skip_if_rocm_ver_lessthan_multiprocess((6, 3)), CPU, None),
    Row(r.skip_if_rocm_ver_lessthan_multiprocess((6,)), r.MachineFacts(rocm=True), "of unknown version"),
    Row(r.skip_if_win32(), WINDOWS, "does not work on Windows"),
    Row(r.skip_if_win32(), CPU, None),
    Row(r.skipIfWindows(msg="no fork"), WINDOWS, "does not work on Windows: no fork"),
    Row(r.skipIfWindows, MAC, None),
]

RUNS = [
    Row(r.slowTest, CPU, "is slow"),
    Row(r.slowTest, CPU, None, environ={"PYTORCH_TEST_WITH_SLOW": "1"}),
    Row(r.slow_test, CPU, "is slow", environ={"PYTORCH_TEST_WITH_SLOW": "0"}),
    Row(r.memory_mb(9000), WINDOWS, "needs 9000 MiB of memory, this machine has 8000 MiB"),
    Row(r.memory_mb(8000), WINDOWS, None),
    Row(r.memory_mb(9000), CPU, None),
    Row(r.timeout(5), BARE, None),
    Row(r.exclusive, BARE, None),
    Row(r.cpu_slots(64), BARE, None),
    Row(r.skip_but_pass_in_sandcastle("broken"), CPU, "broken"),
    Row(r.skip_but_pass_in_sandcastle("broken"), CPU, None, environ={"SANDCASTLE": "1"}),
    Row(r.skip_but_pass_in_sandcastle_if(True, "odd"), CPU, "odd"),
    Row(r.skip_but_pass_in_sandcastle_if(False, "odd"), CPU, None),
    Row(r.requires_nccl(), CPU, None, environ={"TW_JOB_USER": "sandcastle"}),
    Row(r.skip_if_lt_x_gpu(1), CPU, "needs 1 accelerator", environ={"SANDCASTLE": "1"}),
]


@contextmanager
def machine(facts: r.MachineFacts, environ: dict[str, str] | None = None) -> Iterator[None]:
    """A machine with these facts and nothing but this environment."""
    with (
        mock.patch.object(probes, "probe", return_value=facts),
        mock.patch.dict(os.environ, environ or {}, clear=True),
    ):
        yield


def case_of(row: Row) -> unittest.TestCase:
    """A plain unittest test with that decorator, which remembers in `ran` whether its body ran."""

    class Plain(unittest.TestCase):
        ran = False

        @row.decorator
        def test_it(self) -> None:
            self.ran = True

    test = Plain("test_it")
    if row.world_size is not None:
        test.world_size = row.world_size  # type: ignore[attr-defined]  # as the multi-process cases have it
    return test


def outcome(test: unittest.TestCase) -> str | None:
    """The skip reason of a run through unittest, None for a pass; AssertionError for anything else."""
    result = unittest.TestResult()
    test.run(result)
    if result.errors or result.failures:
        raise AssertionError((result.errors + result.failures)[0][1])
    return result.skipped[0][1] if result.skipped else None


class Verdicts(unittest.TestCase):
    """Each row three times: by calling the test, by asking before a launch, and by the pure function."""

    def check(self, rows: list[Row]) -> None:
        for row in rows:
            with self.subTest(row=row), machine(row.facts, row.environ), mock.patch("sys.stderr"):
                self.check_row(row)

    def check_row(self, row: Row) -> None:
        test = case_of(row)
        requirements = r.requirements_of(type(test), "test_it")
        occasion = r.occasion_from(row.environ, world_size=row.world_size)
        verdicts = [outcome(test), r.reason_to_skip(test), r.unmet(requirements, row.facts, occasion)]
        if row.expected is None:
            self.assertEqual(verdicts, [None] * 3)
            sandcastle = wishes_from(row.environ).sandcastle
            self.assertNotEqual(test.ran, sandcastle)  # type: ignore[attr-defined]
        else:
            self.assertIn(row.expected, str(verdicts[0]))
            self.assertEqual(verdicts, [verdicts[0]] * 3)
            self.assertFalse(test.ran)  # type: ignore[attr-defined]

    def test_accelerators(self) -> None:
        self.check(ACCELERATORS)

    def test_world_sizes(self) -> None:
        self.check(WORLD_SIZES)

    def test_builds(self) -> None:
        self.check(BUILDS)

    def test_runs(self) -> None:
        self.check(RUNS)


class AtLeast(unittest.TestCase):
    def test_counts_the_devices_that_can_be_asked_for(self) -> None:
        for facts, count, expected in (
            (CPU, 0, False),
            (CPU, 1, False),
            (CUDA_4, 4, True),
            (CUDA_4, 5, False),
            (XPU_2, 2, True),
            (MAC, 1, False),
        ):
            with (
                self.subTest(facts=facts, count=count),
                mock.patch.object(probes, "probe", return_value=facts),
            ):
                self.assertIs(r.at_least_x_gpu(count), expected)


class Unknown(unittest.TestCase):
    """What nobody knows is no reason to skip, and where it must be known its absence is an error."""

    def test_a_world_size_that_nobody_says(self) -> None:
        for decorator in (r.skip_if_small_worldsize, r.skip_if_odd_worldsize):
            test = case_of(Row(decorator, CPU, None))
            with (
                mock.patch.dict(os.environ, clear=True),
                mock.patch.object(probes, "probe", return_value=CPU),
            ):
                self.assertIsNone(r.reason_to_skip(test))
                with self.assertRaisesRegex(ValueError, "world_size attribute, or set WORLD_SIZE"):
                    type(test).test_it(test)  # type: ignore[attr-defined]

    def test_a_world_size_that_is_none(self) -> None:
        test = case_of(Row(r.skip_if_odd_worldsize, CPU, None))
        with (
            machine(CPU, {"WORLD_SIZE": "three"}),
            self.assertRaisesRegex(ValueError, "WORLD_SIZE is 'three'"),
        ):
            r.reason_to_skip(test)

    def test_a_bad_world_size_hurts_only_the_tests_that_need_one(self) -> None:
        with (
            mock.patch.dict(os.environ, {"WORLD_SIZE": "three"}),
            mock.patch.object(probes, "probe", return_value=CPU),
        ):
            self.assertIsNone(outcome(case_of(Row(r.requires_gloo(), CPU, None))))

    def test_the_sentinel_of_an_unset_world_size_is_no_world_size(self) -> None:
        test = case_of(Row(r.skip_if_odd_worldsize, CPU, None, world_size=-2))
        with (
            mock.patch.dict(os.environ, {"WORLD_SIZE": "3"}),
            mock.patch.object(probes, "probe", return_value=CPU),
        ):
            self.assertIn("got 3", str(r.reason_to_skip(test)))

    def test_the_test_says_its_world_size_as_text_and_its_backend(self) -> None:
        class Plain(unittest.TestCase):
            world_size = "3"
            backend = "mpi"

            @r.skip_if_odd_worldsize
            def test_it(self) -> None:
                pass

        with (
            mock.patch.dict(os.environ, {"BACKEND": "gloo"}),
            mock.patch.object(probes, "probe", return_value=CPU),
        ):
            self.assertIsNone(r.reason_to_skip(Plain("test_it")))
            with mock.patch.object(Plain, "backend", "gloo"):
                self.assertIn("got 3", str(r.reason_to_skip(Plain("test_it"))))

    def test_an_nccl_version_that_torch_does_not_tell(self) -> None:
        facts = r.MachineFacts(accelerators=(("cuda", 1),), backends=frozenset({"nccl"}))
        self.assertIsNone(NcclVersion(version=(9,), reason="x").unmet(facts, r.Occasion()))

    def test_multicast_is_asked_of_the_driver_only_when_the_test_is_called(self) -> None:
        test = case_of(Row(r.requires_multicast_support(), CUDA_1, None))
        with mock.patch.object(probes, "probe", return_value=CUDA_1):
            with mock.patch.object(probes, "multicast_here", return_value=False) as asked:
                self.assertIsNone(r.reason_to_skip(test))
                asked.assert_not_called()
                self.assertEqual(outcome(test), "needs CUDA devices with multicast")
            with mock.patch.object(probes, "multicast_here", return_value=True):
                self.assertIsNone(outcome(test))


class Imports(unittest.TestCase):
    def verdicts(self, decorator: Decorator, modules: dict[str, Any]) -> tuple[str | None, str | None]:
        test = case_of(Row(decorator, CPU, None))
        with mock.patch.dict("sys.modules", modules), mock.patch.object(probes, "probe", return_value=CPU):
            return r.reason_to_skip(test), outcome(test)

    def test_a_module_that_is_not_there(self) -> None:
        for decorator, module in (
            (r.import_transformers_or_skip(), "transformers"),
            (r.skip_if_no_torchvision, "torchvision"),
        ):
            reason = f"needs the {module} package"
            self.assertEqual(self.verdicts(decorator, {module: None}), (reason, reason))

    def test_a_module_that_is_there(self) -> None:
        present = {"transformers": mock.MagicMock(), "torchvision": mock.MagicMock()}
        self.assertEqual(self.verdicts(r.import_transformers_or_skip(), present), (None, None))
        self.assertEqual(self.verdicts(r.skip_if_no_torchvision, present), (None, None))

    def test_a_module_that_lacks_a_name_is_found_out_where_it_is_used(self) -> None:
        verdicts = self.verdicts(r.import_transformers_or_skip(), {"transformers": mock.Mock(spec=[])})
        self.assertEqual(verdicts, (None, "needs the transformers package"))


if __name__ == "__main__":
    unittest.main()
