"""torch-harness: ordinary unittest methods on N real ranks, with true verdicts in tens of milliseconds.

The public names, resolved when they are first used: ``import harness`` imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.cases.multiprocess import DistributedTestBase, MultiProcessTestCase
    from harness.modules import load_tests, run_tests
    from harness.testcase import TestCase

__version__ = "0.1.0"

_HOMES = {
    "harness.cases.multiprocess": ("MultiProcessTestCase", "DistributedTestBase"),
    "harness.cases.continuous": ("MultiProcContinuousTest",),
    "harness.testcase": ("TestCase",),
    "harness.modules": ("load_tests", "run_tests"),
    "harness.parametrize": ("parametrize", "subtest", "instantiate_parametrized_tests"),
    "harness.errors": (
        "HarnessError",
        "UsageError",
        "LaunchError",
        "RankProblem",
        "RankFailure",
        "RankError",
        "RankLeakWarning",
    ),
    "harness.outcomes": ("Status", "RankOutcome", "TestOutcome"),
    "harness.requirements": (
        "ADDRESS_IN_USE",
        "CONNECT_TIMEOUT",
        "MachineFacts",
        "Occasion",
        "Requirement",
        "Requirements",
        "at_least_x_gpu",
        "captured_output",
        "cpu_slots",
        "exclusive",
        "get_required_world_size",
        "import_transformers_or_skip",
        "memory_mb",
        "merge",
        "nccl_skip_if_lt_x_gpu",
        "occasion_from",
        "probe",
        "reason_to_skip",
        "require",
        "require_n_gpus_for_nccl_backend",
        "requirements_of",
        "requires_accelerator_dist_backend",
        "requires_backend",
        "requires_cuda",
        "requires_device_type",
        "requires_gloo",
        "requires_mpi",
        "requires_multicast_support",
        "requires_nccl",
        "requires_nccl_shrink",
        "requires_nccl_version",
        "requires_ucc",
        "requires_world_size",
        "retry_on_connect_failures",
        "skipIfRocm",
        "skipIfWindows",
        "skip_but_pass_in_sandcastle",
        "skip_but_pass_in_sandcastle_if",
        "skip_if_lt_x_gpu",
        "skip_if_no_gpu",
        "skip_if_no_torchvision",
        "skip_if_odd_worldsize",
        "skip_if_rocm_arch_multiprocess",
        "skip_if_rocm_multiprocess",
        "skip_if_rocm_ver_lessthan_multiprocess",
        "skip_if_small_worldsize",
        "skip_if_win32",
        "slowTest",
        "slow_test",
        "timeout",
        "unmet",
        "verify_ddp_error_logged",
        "with_dist_debug_levels",
        "with_nccl_blocking_wait",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
