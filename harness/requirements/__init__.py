"""What a test needs of the machine and of the run, written as data on the test.

A decorator appends one frozen value to a tuple on the test. A runner reads the tuple with
`requirements_of(cls, method_name)`, without running the test and without torch; a base class asks
`skip_reason(test)` before it launches ranks; and a test that is called where its requirement is not met
raises unittest.SkipTest, in any TestCase. Where to change what:

    upstream_decorators     a decorator that PyTorch's tests have too: skip_if_lt_x_gpu, requires_nccl, ...
    harness_decorators      a decorator of our own: timeout, exclusive, requires_backend, ...
    environment_decorators  a decorator that runs a test under other environment variables
    retry                   the decorator that calls a function again when it could not connect
    argument_checks         what the decorators accept as arguments
    kinds                   a kind of requirement, and when a machine meets it
    scheduling              a kind of requirement that tells the scheduler something: time, memory, processors
    merged                  all requirements of one test, merged, and the verdict over them
    attach                  how requirements are put on tests, read back, and enforced
    machine                 the facts of a machine and of a run that requirements are compared with
    probes                  how the facts of the real machine are found out
    upstream_helpers        captured_output and verify_ddp_error_logged
"""

from harness.requirements.attach import (
    get_required_hosts,
    get_required_world_size,
    require,
    requirements_of,
    skip_reason,
)
from harness.requirements.environment_decorators import with_dist_debug_levels, with_nccl_blocking_wait
from harness.requirements.harness_decorators import (
    communication_check,
    cpu_slots,
    exclusive,
    memory_mb,
    requires_backend,
    requires_device_type,
    requires_hosts,
    timeout,
)
from harness.requirements.kinds import Requirement
from harness.requirements.machine import MachineFacts, RunFacts, run_facts_from
from harness.requirements.merged import Requirements, merge, unmet
from harness.requirements.probes import probe
from harness.requirements.retry import ADDRESS_IN_USE, CONNECT_TIMEOUT, retry_on_connect_failures
from harness.requirements.upstream_decorators import (
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
from harness.requirements.upstream_helpers import captured_output, verify_ddp_error_logged

__all__ = [
    "ADDRESS_IN_USE",
    "CONNECT_TIMEOUT",
    "MachineFacts",
    "Requirement",
    "Requirements",
    "RunFacts",
    "at_least_x_gpu",
    "captured_output",
    "communication_check",
    "cpu_slots",
    "exclusive",
    "get_required_hosts",
    "get_required_world_size",
    "import_transformers_or_skip",
    "memory_mb",
    "merge",
    "nccl_skip_if_lt_x_gpu",
    "probe",
    "require",
    "require_n_gpus_for_nccl_backend",
    "requirements_of",
    "requires_accelerator_dist_backend",
    "requires_backend",
    "requires_cuda",
    "requires_device_type",
    "requires_gloo",
    "requires_hosts",
    "requires_mpi",
    "requires_multicast_support",
    "requires_nccl",
    "requires_nccl_shrink",
    "requires_nccl_version",
    "requires_ucc",
    "requires_world_size",
    "retry_on_connect_failures",
    "run_facts_from",
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
    "skip_reason",
    "slowTest",
    "slow_test",
    "timeout",
    "unmet",
    "verify_ddp_error_logged",
    "with_dist_debug_levels",
    "with_nccl_blocking_wait",
]
