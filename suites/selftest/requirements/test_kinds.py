"""Self-tests of harness.requirements.kinds: which test skips on which machine, in tables."""

from __future__ import annotations

import dataclasses
import unittest
from typing import Any

from harness import requirements as r
from harness.hosts.hosts import Host, to_text
from harness.requirements.kinds import NcclVersion, Requirement
from harness.settings import EnvVar
from suites.selftest.requirements.sample_machines import (
    BARE,
    CPU,
    CUDA_1,
    CUDA_4,
    HPU_8,
    MAC,
    OWN_2,
    ROCM,
    WINDOWS,
    XPU_2,
    Row,
    VerdictTestCase,
)

TWO_HOSTS = to_text([Host(name, "10.0.0.1", 1, 2, 3) for name in ("tn1", "tn2")])

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

HOSTS = [
    Row(r.requires_hosts(2), CPU, "needs 2 hosts, found 1"),
    Row(r.requires_hosts(1), CPU, None),
    Row(r.requires_hosts(2), CPU, None, environ={EnvVar.HOSTS: TWO_HOSTS}),
    Row(r.requires_hosts(3), CPU, "needs 3 hosts, found 2", environ={EnvVar.HOSTS: TWO_HOSTS}),
    Row(r.requires_hosts(3), CPU, None, environ={EnvVar.STORE: "tn1:5"}),  # a rank, whose parent has counted
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

SANDCASTLE = [
    Row(r.skip_but_pass_in_sandcastle("broken"), CPU, "broken"),
    Row(r.skip_but_pass_in_sandcastle("broken"), CPU, None, environ={"SANDCASTLE": "1"}),
    Row(r.skip_but_pass_in_sandcastle_if(True, "odd"), CPU, "odd"),
    Row(r.skip_but_pass_in_sandcastle_if(False, "odd"), CPU, None),
    Row(r.requires_nccl(), CPU, None, environ={"TW_JOB_USER": "sandcastle"}),
    Row(r.skip_if_lt_x_gpu(1), CPU, "needs 1 accelerator", environ={"SANDCASTLE": "1"}),
]


class KindsTest(VerdictTestCase):
    """The verdict of each kind of requirement, on machines that meet it and on machines that do not."""

    def test_accelerators(self) -> None:
        """Requirements of devices by count and by type."""
        self.check(ACCELERATORS)

    def test_world_sizes(self) -> None:
        """Requirements whose verdict depends on the number of ranks."""
        self.check(WORLD_SIZES)

    def test_hosts(self) -> None:
        """The number of hosts that a run was told of, which its ranks do not count again."""
        self.check(HOSTS)

    def test_builds(self) -> None:
        """Requirements of the torch build and of the platform."""
        self.check(BUILDS)

    def test_sandcastle(self) -> None:
        """Unconditional skips, and those that pass without running where SANDCASTLE=1."""
        self.check(SANDCASTLE)

    def test_an_unknown_nccl_version_is_no_reason_to_skip(self) -> None:
        """Where torch does not tell its NCCL version, the requirement of one is met."""
        facts = r.MachineFacts(accelerators=(("cuda", 1),), backends=frozenset({"nccl"}))
        self.assertIsNone(NcclVersion(version=(9,), reason="x").unmet(facts, r.RunFacts()))


class NeedsTorchTest(unittest.TestCase):
    """``Requirement.needs_torch``, by which a process decides whether to import torch for a check."""

    def test_is_what_the_check_reads(self) -> None:
        """A kind needs torch if and only if its check reads a fact that only torch knows."""
        samples: dict[str, Any] = {"any_of": ("x",), "version": (1,), "module": "m", "platform": "x"}
        for kind in Requirement.__subclasses__():
            fields = {f.name: f for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING}
            values = {name: samples.get(name, 1) for name in fields}
            requirement = kind(**{**values, "reason": "x"})
            with self.subTest(kind=kind.__name__):
                read = {
                    name
                    for facts in (CPU, CUDA_4, ROCM)
                    for size in (None, 2)
                    for name in _read_by(requirement, facts, r.RunFacts(world_size=size))
                }
                self.assertEqual(kind.needs_torch, bool(read - {"platform", "memory_mb", "modules"}), read)


def _read_by(requirement: Requirement, facts: r.MachineFacts, run_facts: r.RunFacts) -> set[str]:
    """The names of the facts that a check reads."""
    names = {field.name for field in dataclasses.fields(facts)}
    read = set()

    class Noting(r.MachineFacts):
        def __getattribute__(self, name: str) -> Any:
            if name in names:
                read.add(name)
            return super().__getattribute__(name)

    noting = Noting(**{name: getattr(facts, name) for name in names})
    requirement.unmet(noting, run_facts)
    return read


if __name__ == "__main__":
    unittest.main()
