"""torch-harness: runs ordinary unittest methods on N real ranks; this file lists the public names.

A public name is imported when it is first used, so ``import harness`` imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.cases.comms import with_comms as with_comms
    from harness.cases.continuous import MultiProcContinuousTest as MultiProcContinuousTest
    from harness.cases.distributed import DistributedTestBase as DistributedTestBase
    from harness.cases.dtensor import DEVICE_COUNT as DEVICE_COUNT
    from harness.cases.dtensor import DEVICE_TYPE as DEVICE_TYPE
    from harness.cases.dtensor import NUM_DEVICES as NUM_DEVICES
    from harness.cases.dtensor import PG_BACKEND as PG_BACKEND
    from harness.cases.dtensor import DTensorContinuousTestBase as DTensorContinuousTestBase
    from harness.cases.dtensor import DTensorOpTestBase as DTensorOpTestBase
    from harness.cases.dtensor import DTensorTestBase as DTensorTestBase
    from harness.cases.dtensor import DTensorTestMixin as DTensorTestMixin
    from harness.cases.dtensor import LocalDTensorContinuousTestBase as LocalDTensorContinuousTestBase
    from harness.cases.dtensor import LocalDTensorOpTestBase as LocalDTensorOpTestBase
    from harness.cases.dtensor import LocalDTensorTestBase as LocalDTensorTestBase
    from harness.cases.dtensor import create_local_tensor_test_class as create_local_tensor_test_class
    from harness.cases.dtensor import map_local_for_rank as map_local_for_rank
    from harness.cases.dtensor import map_local_tensor_for_rank as map_local_tensor_for_rank
    from harness.cases.dtensor import reduce_local_int as reduce_local_int
    from harness.cases.dtensor import skip_unless_torch_gpu as skip_unless_torch_gpu
    from harness.cases.dtensor_converter import DTensorConverter as DTensorConverter
    from harness.cases.dynamo import DynamoDistributedMultiProcTestCase as DynamoDistributedMultiProcTestCase
    from harness.cases.dynamo import (
        DynamoDistributedSingleProcTestCase as DynamoDistributedSingleProcTestCase,
    )
    from harness.cases.dynamo import DynamoTestCase as DynamoTestCase
    from harness.cases.dynamo import _dynamo_dist_per_rank_init as _dynamo_dist_per_rank_init
    from harness.cases.fake_groups import DummyProcessGroup as DummyProcessGroup
    from harness.cases.fake_groups import FakeStore as FakeStore
    from harness.cases.fake_groups import with_dist as with_dist
    from harness.cases.fake_groups import with_fake_comms as with_fake_comms
    from harness.cases.fsdp import DISTRIBUTED_BACKEND as DISTRIBUTED_BACKEND
    from harness.cases.fsdp import FSDPTest as FSDPTest
    from harness.cases.fsdp import FSDPTestContinuous as FSDPTestContinuous
    from harness.cases.fsdp import FSDPTestMultiThread as FSDPTestMultiThread
    from harness.cases.fsdp import get_devtype as get_devtype
    from harness.cases.fsdp_parity import FSDPTestMixin as FSDPTestMixin
    from harness.cases.fsdp_parity import get_full_params as get_full_params
    from harness.cases.fsdp_patches import check_sharded_parity as check_sharded_parity
    from harness.cases.fsdp_patches import patch_all_gather as patch_all_gather
    from harness.cases.fsdp_patches import patch_all_reduce as patch_all_reduce
    from harness.cases.fsdp_patches import patch_foreach_all_gather as patch_foreach_all_gather
    from harness.cases.fsdp_patches import patch_foreach_reduce as patch_foreach_reduce
    from harness.cases.fsdp_patches import patch_post_backward as patch_post_backward
    from harness.cases.fsdp_patches import patch_reduce_scatter as patch_reduce_scatter
    from harness.cases.fsdp_patches import (
        patch_register_post_backward_hook_backward as patch_register_post_backward_hook_backward,
    )
    from harness.cases.fsdp_patches import patch_reshard as patch_reshard
    from harness.cases.fsdp_patches import patch_unshard as patch_unshard
    from harness.cases.fsdp_patches import reduce_scatter_with_assert as reduce_scatter_with_assert
    from harness.cases.hypothesis_draws import same_draws as same_draws
    from harness.cases.mesh_strategies import layouts as layouts
    from harness.cases.mesh_strategies import mesh_placements as mesh_placements
    from harness.cases.mesh_strategies import mesh_shapes as mesh_shapes
    from harness.cases.mesh_strategies import moves as moves
    from harness.cases.mesh_strategies import tensor_shapes as tensor_shapes
    from harness.cases.multiprocess import MultiProcessTestCase as MultiProcessTestCase
    from harness.cases.stores import TemporaryDirectoryName as TemporaryDirectoryName
    from harness.cases.stores import TemporaryFileName as TemporaryFileName
    from harness.cases.stores import create_device as create_device
    from harness.cases.stores import create_tcp_store as create_tcp_store
    from harness.cases.stores import find_free_port as find_free_port
    from harness.cases.stores import with_checkpoint_logging as with_checkpoint_logging
    from harness.cases.stores import with_temp_dir as with_temp_dir
    from harness.cases.subtests import run_subtests as run_subtests
    from harness.cases.threaded import MultiThreadedTestCase as MultiThreadedTestCase
    from harness.cases.threaded import spawn_threads_and_init_comms as spawn_threads_and_init_comms
    from harness.communication.history import Communication as Communication
    from harness.communication.history import record_communication as record_communication
    from harness.communication.history import recorded_communication as recorded_communication
    from harness.errors import CommunicationWarning as CommunicationWarning
    from harness.errors import HarnessError as HarnessError
    from harness.errors import LaunchError as LaunchError
    from harness.errors import RankError as RankError
    from harness.errors import RankFailure as RankFailure
    from harness.errors import RankLeakWarning as RankLeakWarning
    from harness.errors import RankTestError as RankTestError
    from harness.errors import UsageError as UsageError
    from harness.models.delay import get_cycles_per_ms as get_cycles_per_ms
    from harness.models.fsdp import DEVICEInitMode as DEVICEInitMode
    from harness.models.fsdp import FSDPInitMode as FSDPInitMode
    from harness.models.fsdp import FSDPTestModel as FSDPTestModel
    from harness.models.fsdp_delays import ModuleWithDelay as ModuleWithDelay
    from harness.models.fsdp_delays import NestedWrappedModuleWithDelay as NestedWrappedModuleWithDelay
    from harness.models.fsdp_experts import MixtureOfExperts as MixtureOfExperts
    from harness.models.fsdp_nested import AlwaysWrapNestedWrappedModule as AlwaysWrapNestedWrappedModule
    from harness.models.fsdp_nested import NestedWrappedModule as NestedWrappedModule
    from harness.models.fsdp_nested import NonUniformReqGradNWM as NonUniformReqGradNWM
    from harness.models.fsdp_skipped import NestedLinear as NestedLinear
    from harness.models.fsdp_skipped import SkipModel as SkipModel
    from harness.models.fsdp_skipped import SkipModule as SkipModule
    from harness.models.fsdp_transformer import TransformerWithSharedParams as TransformerWithSharedParams
    from harness.models.layers import MLP as MLP
    from harness.models.layers import DoubleLinear as DoubleLinear
    from harness.models.layers import DummyDDP as DummyDDP
    from harness.models.layers import MLPModule as MLPModule
    from harness.models.layers import MLPStack as MLPStack
    from harness.models.layers import MLPStacked as MLPStacked
    from harness.models.layers import RMSNormPython as RMSNormPython
    from harness.models.layers import SaveForwardInputsModel as SaveForwardInputsModel
    from harness.models.layers import SaveForwardInputsModule as SaveForwardInputsModule
    from harness.models.transformer import Attention as Attention
    from harness.models.transformer import FeedForward as FeedForward
    from harness.models.transformer import ModelArgs as ModelArgs
    from harness.models.transformer import Transformer as Transformer
    from harness.models.transformer import TransformerBlock as TransformerBlock
    from harness.module_main import load_tests as load_tests
    from harness.module_main import run_tests as run_tests
    from harness.outcomes import RankOutcome as RankOutcome
    from harness.outcomes import Status as Status
    from harness.outcomes import TestOutcome as TestOutcome
    from harness.parametrization import decorateIf as decorateIf
    from harness.parametrization import instantiate_parametrized_tests as instantiate_parametrized_tests
    from harness.parametrization import parametrize as parametrize
    from harness.parametrization import reparametrize as reparametrize
    from harness.parametrization import subtest as subtest
    from harness.ranks.processes.preload import preload_compiler as preload_compiler
    from harness.requirements import ADDRESS_IN_USE as ADDRESS_IN_USE
    from harness.requirements import CONNECT_TIMEOUT as CONNECT_TIMEOUT
    from harness.requirements import MachineFacts as MachineFacts
    from harness.requirements import Requirement as Requirement
    from harness.requirements import Requirements as Requirements
    from harness.requirements import RunFacts as RunFacts
    from harness.requirements import at_least_x_gpu as at_least_x_gpu
    from harness.requirements import captured_output as captured_output
    from harness.requirements import communication_check as communication_check
    from harness.requirements import cpu_slots as cpu_slots
    from harness.requirements import exclusive as exclusive
    from harness.requirements import get_required_world_size as get_required_world_size
    from harness.requirements import import_transformers_or_skip as import_transformers_or_skip
    from harness.requirements import memory_mb as memory_mb
    from harness.requirements import nccl_skip_if_lt_x_gpu as nccl_skip_if_lt_x_gpu
    from harness.requirements import probe as probe
    from harness.requirements import require as require
    from harness.requirements import require_n_gpus_for_nccl_backend as require_n_gpus_for_nccl_backend
    from harness.requirements import requirements_of as requirements_of
    from harness.requirements import requires_accelerator_dist_backend as requires_accelerator_dist_backend
    from harness.requirements import requires_backend as requires_backend
    from harness.requirements import requires_cuda as requires_cuda
    from harness.requirements import requires_device_type as requires_device_type
    from harness.requirements import requires_gloo as requires_gloo
    from harness.requirements import requires_hosts as requires_hosts
    from harness.requirements import requires_mpi as requires_mpi
    from harness.requirements import requires_multicast_support as requires_multicast_support
    from harness.requirements import requires_nccl as requires_nccl
    from harness.requirements import requires_nccl_shrink as requires_nccl_shrink
    from harness.requirements import requires_nccl_version as requires_nccl_version
    from harness.requirements import requires_ucc as requires_ucc
    from harness.requirements import requires_world_size as requires_world_size
    from harness.requirements import retry_on_connect_failures as retry_on_connect_failures
    from harness.requirements import run_facts_from as run_facts_from
    from harness.requirements import skip_but_pass_in_sandcastle as skip_but_pass_in_sandcastle
    from harness.requirements import skip_but_pass_in_sandcastle_if as skip_but_pass_in_sandcastle_if
    from harness.requirements import skip_if_lt_x_gpu as skip_if_lt_x_gpu
    from harness.requirements import skip_if_no_gpu as skip_if_no_gpu
    from harness.requirements import skip_if_no_torchvision as skip_if_no_torchvision
    from harness.requirements import skip_if_odd_worldsize as skip_if_odd_worldsize
    from harness.requirements import skip_if_rocm_arch_multiprocess as skip_if_rocm_arch_multiprocess
    from harness.requirements import skip_if_rocm_multiprocess as skip_if_rocm_multiprocess
    from harness.requirements import (
        skip_if_rocm_ver_lessthan_multiprocess as skip_if_rocm_ver_lessthan_multiprocess,
    )
    from harness.requirements import skip_if_small_worldsize as skip_if_small_worldsize
    from harness.requirements import skip_if_win32 as skip_if_win32
    from harness.requirements import skip_reason as skip_reason
    from harness.requirements import skipIfRocm as skipIfRocm
    from harness.requirements import skipIfWindows as skipIfWindows
    from harness.requirements import slow_test as slow_test
    from harness.requirements import slowTest as slowTest
    from harness.requirements import timeout as timeout
    from harness.requirements import unmet as unmet
    from harness.requirements import verify_ddp_error_logged as verify_ddp_error_logged
    from harness.requirements import with_dist_debug_levels as with_dist_debug_levels
    from harness.requirements import with_nccl_blocking_wait as with_nccl_blocking_wait
    from harness.requirements.machine_flags import ACCELERATOR_DIST_BACKENDS as ACCELERATOR_DIST_BACKENDS
    from harness.requirements.machine_flags import FILE_SCHEMA as FILE_SCHEMA
    from harness.requirements.machine_flags import HAS_ACCELERATOR as HAS_ACCELERATOR
    from harness.requirements.machine_flags import IS_CI as IS_CI
    from harness.requirements.machine_flags import IS_LINUX as IS_LINUX
    from harness.requirements.machine_flags import IS_MACOS as IS_MACOS
    from harness.requirements.machine_flags import IS_SANDCASTLE as IS_SANDCASTLE
    from harness.requirements.machine_flags import IS_WINDOWS as IS_WINDOWS
    from harness.requirements.machine_flags import MI200_ARCH as MI200_ARCH
    from harness.requirements.machine_flags import MI300_ARCH as MI300_ARCH
    from harness.requirements.machine_flags import MI350_ARCH as MI350_ARCH
    from harness.requirements.machine_flags import NO_MULTIPROCESSING_SPAWN as NO_MULTIPROCESSING_SPAWN
    from harness.requirements.machine_flags import TEST_ACCELERATOR as TEST_ACCELERATOR
    from harness.requirements.machine_flags import TEST_CUDA as TEST_CUDA
    from harness.requirements.machine_flags import TEST_HPU as TEST_HPU
    from harness.requirements.machine_flags import TEST_MULTIACCELERATOR as TEST_MULTIACCELERATOR
    from harness.requirements.machine_flags import TEST_MULTIGPU as TEST_MULTIGPU
    from harness.requirements.machine_flags import TEST_WITH_DEV_DBG_ASAN as TEST_WITH_DEV_DBG_ASAN
    from harness.requirements.machine_flags import TEST_WITH_ROCM as TEST_WITH_ROCM
    from harness.requirements.machine_flags import TEST_WITH_SLOW as TEST_WITH_SLOW
    from harness.requirements.machine_flags import TEST_WITH_TSAN as TEST_WITH_TSAN
    from harness.requirements.machine_flags import TEST_XPU as TEST_XPU
    from harness.requirements.skip_codes import TEST_SKIPS as TEST_SKIPS
    from harness.requirements.skip_codes import TestSkip as TestSkip
    from harness.requirements.upstream_helpers import freeze_rng_state as freeze_rng_state
    from harness.requirements.upstream_helpers import init_multigpu_helper as init_multigpu_helper
    from harness.requirements.upstream_helpers import set_rng_seed as set_rng_seed
    from harness.requirements.upstream_helpers import sm_is_or_higher_than as sm_is_or_higher_than
    from harness.testcase import TestCase as TestCase

__version__ = "0.1.0"

_HOMES = {
    "harness.cases.distributed": ("DistributedTestBase",),
    "harness.cases.multiprocess": ("MultiProcessTestCase",),
    "harness.cases.continuous": ("MultiProcContinuousTest",),
    "harness.cases.comms": ("with_comms",),
    "harness.ranks.processes.preload": ("preload_compiler",),
    "harness.cases.dtensor_converter": ("DTensorConverter",),
    "harness.cases.dtensor": (
        "DEVICE_COUNT",
        "DEVICE_TYPE",
        "PG_BACKEND",
        "DTensorContinuousTestBase",
        "DTensorOpTestBase",
        "DTensorTestBase",
        "DTensorTestMixin",
        "LocalDTensorContinuousTestBase",
        "LocalDTensorOpTestBase",
        "LocalDTensorTestBase",
        "NUM_DEVICES",
        "create_local_tensor_test_class",
        "map_local_for_rank",
        "map_local_tensor_for_rank",
        "reduce_local_int",
        "skip_unless_torch_gpu",
    ),
    "harness.cases.dynamo": (
        "DynamoDistributedMultiProcTestCase",
        "DynamoDistributedSingleProcTestCase",
        "DynamoTestCase",
        "_dynamo_dist_per_rank_init",
    ),
    "harness.cases.hypothesis_draws": ("same_draws",),
    "harness.cases.mesh_strategies": ("layouts", "mesh_placements", "mesh_shapes", "moves", "tensor_shapes"),
    "harness.cases.subtests": ("run_subtests",),
    "harness.cases.threaded": ("MultiThreadedTestCase", "spawn_threads_and_init_comms"),
    "harness.cases.fsdp": (
        "DISTRIBUTED_BACKEND",
        "FSDPTest",
        "FSDPTestContinuous",
        "FSDPTestMultiThread",
        "get_devtype",
    ),
    "harness.cases.fsdp_parity": (
        "FSDPTestMixin",
        "get_full_params",
    ),
    "harness.cases.fsdp_patches": (
        "check_sharded_parity",
        "patch_all_gather",
        "patch_all_reduce",
        "patch_foreach_all_gather",
        "patch_foreach_reduce",
        "patch_post_backward",
        "patch_reduce_scatter",
        "patch_register_post_backward_hook_backward",
        "patch_reshard",
        "patch_unshard",
        "reduce_scatter_with_assert",
    ),
    "harness.cases.fake_groups": (
        "DummyProcessGroup",
        "FakeStore",
        "with_dist",
        "with_fake_comms",
    ),
    "harness.cases.stores": (
        "TemporaryDirectoryName",
        "TemporaryFileName",
        "create_device",
        "create_tcp_store",
        "find_free_port",
        "with_checkpoint_logging",
        "with_temp_dir",
    ),
    "harness.models.delay": ("get_cycles_per_ms",),
    "harness.models.fsdp": ("DEVICEInitMode", "FSDPInitMode", "FSDPTestModel"),
    "harness.models.fsdp_delays": ("ModuleWithDelay", "NestedWrappedModuleWithDelay"),
    "harness.models.fsdp_experts": ("MixtureOfExperts",),
    "harness.models.fsdp_nested": (
        "AlwaysWrapNestedWrappedModule",
        "NestedWrappedModule",
        "NonUniformReqGradNWM",
    ),
    "harness.models.fsdp_skipped": ("NestedLinear", "SkipModel", "SkipModule"),
    "harness.models.fsdp_transformer": ("TransformerWithSharedParams",),
    "harness.models.layers": (
        "DoubleLinear",
        "DummyDDP",
        "MLP",
        "MLPModule",
        "MLPStack",
        "MLPStacked",
        "RMSNormPython",
        "SaveForwardInputsModel",
        "SaveForwardInputsModule",
    ),
    "harness.models.transformer": (
        "Attention",
        "FeedForward",
        "ModelArgs",
        "Transformer",
        "TransformerBlock",
    ),
    "harness.requirements.skip_codes": (
        "TEST_SKIPS",
        "TestSkip",
    ),
    "harness.requirements.machine_flags": (
        "ACCELERATOR_DIST_BACKENDS",
        "FILE_SCHEMA",
        "HAS_ACCELERATOR",
        "IS_CI",
        "IS_LINUX",
        "IS_MACOS",
        "IS_SANDCASTLE",
        "IS_WINDOWS",
        "MI200_ARCH",
        "MI300_ARCH",
        "MI350_ARCH",
        "NO_MULTIPROCESSING_SPAWN",
        "TEST_ACCELERATOR",
        "TEST_CUDA",
        "TEST_HPU",
        "TEST_MULTIACCELERATOR",
        "TEST_MULTIGPU",
        "TEST_WITH_DEV_DBG_ASAN",
        "TEST_WITH_ROCM",
        "TEST_WITH_SLOW",
        "TEST_WITH_TSAN",
        "TEST_XPU",
    ),
    "harness.requirements.upstream_helpers": (
        "freeze_rng_state",
        "init_multigpu_helper",
        "set_rng_seed",
        "sm_is_or_higher_than",
    ),
    "harness.testcase": ("TestCase",),
    "harness.module_main": ("load_tests", "run_tests"),
    "harness.parametrization": (
        "decorateIf",
        "instantiate_parametrized_tests",
        "parametrize",
        "reparametrize",
        "subtest",
    ),
    "harness.communication.history": ("Communication", "recorded_communication", "record_communication"),
    "harness.errors": (
        "HarnessError",
        "UsageError",
        "LaunchError",
        "RankTestError",
        "RankFailure",
        "RankError",
        "CommunicationWarning",
        "RankLeakWarning",
    ),
    "harness.outcomes": ("Status", "RankOutcome", "TestOutcome"),
    "harness.requirements": (
        "ADDRESS_IN_USE",
        "CONNECT_TIMEOUT",
        "MachineFacts",
        "RunFacts",
        "Requirement",
        "Requirements",
        "at_least_x_gpu",
        "captured_output",
        "communication_check",
        "cpu_slots",
        "exclusive",
        "get_required_world_size",
        "import_transformers_or_skip",
        "memory_mb",
        "nccl_skip_if_lt_x_gpu",
        "run_facts_from",
        "probe",
        "skip_reason",
        "require",
        "require_n_gpus_for_nccl_backend",
        "requirements_of",
        "requires_accelerator_dist_backend",
        "requires_backend",
        "requires_cuda",
        "requires_device_type",
        "requires_hosts",
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
    try:
        module = importlib.import_module(home)
    except ImportError:
        import harness.errors as errors  # here, because it imports what most users have no need of

        with errors.of_the_platform():
            raise
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*_HOME, *(name for name in globals() if name.startswith("__"))})
