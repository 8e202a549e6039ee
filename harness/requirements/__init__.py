"""What a test needs of the machine and of the run, as data on the test.

A decorator (`decorators.py` has PyTorch's, `own.py` ours) appends one frozen value to a tuple on the test. A
runner reads it with `requirements_of(cls, method_name)`, without running the test and without torch; a base
class asks `reason_to_skip(test)` before it launches ranks; and a test that is called where its requirement is
not met raises unittest.SkipTest, in any TestCase.
"""

from harness.requirements.attach import get_required_world_size, reason_to_skip, require, requirements_of
from harness.requirements.checks import captured_output, verify_ddp_error_logged
from harness.requirements.decorators import (
    at_least_x_gpu,
    import_transformers_or_skip,
    nccl_skip_if_lt_x_gpu,
    require_n_gpus_for_nccl_backend,
    requires_accelerator_dist_backend,
    requires_cuda,
    requires_gloo,
    requires_mpi,
    requires_multicast_support,
    requires_nccl,
    requires_nccl_shrink,
    requires_nccl_version,
    requires_ucc,
    requires_world_size,
    skip_but_pass_in_sandcastle,
    skip_but_pass_in_sandcastle_if,
    skip_if_lt_x_gpu,
    skip_if_no_gpu,
    skip_if_no_torchvision,
    skip_if_odd_worldsize,
    skip_if_rocm_arch_multiprocess,
    skip_if_rocm_multiprocess,
    skip_if_rocm_ver_lessthan_multiprocess,
    skip_if_small_worldsize,
    skip_if_win32,
    skipIfRocm,
    skipIfWindows,
    slow_test,
    slowTest,
)
from harness.requirements.environment import with_dist_debug_levels, with_nccl_blocking_wait
from harness.requirements.facts import MachineFacts, Occasion, occasion_from
from harness.requirements.merged import Requirements, merge, unmet
from harness.requirements.model import Requirement
from harness.requirements.own import (
    cpu_slots,
    exclusive,
    memory_mb,
    requires_backend,
    requires_device_type,
    timeout,
)
from harness.requirements.probes import probe
from harness.requirements.retry import ADDRESS_IN_USE, CONNECT_TIMEOUT, retry_on_connect_failures

__all__ = [
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
]
