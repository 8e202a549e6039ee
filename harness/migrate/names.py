"""Which name of torch's private test modules has which counterpart in ``harness``, and why others have none.

``find`` is what the migration asks; ``docs/migration.rst`` shows the same tables. A public function, class or
constant of these modules that is in neither table fails
``suites/selftest/migrate/test_names.py``: a release of torch has added it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.migrate.reasons import REASONS

HOME = "torch.testing._internal"

# The same names in harness, by torch's module below HOME.
SAME: Mapping[str, str] = {
    "common_distributed": """
        ACCELERATOR_DIST_BACKENDS DistributedTestBase DynamoDistributedMultiProcTestCase
        DynamoDistributedSingleProcTestCase HAS_ACCELERATOR MultiProcContinuousTest MultiProcessTestCase
        MultiThreadedTestCase SaveForwardInputsModel SaveForwardInputsModule TEST_SKIPS TestSkip
        _dynamo_dist_per_rank_init at_least_x_gpu captured_output create_device create_tcp_store
        get_required_world_size import_transformers_or_skip init_multigpu_helper nccl_skip_if_lt_x_gpu
        require_n_gpus_for_nccl_backend requires_accelerator_dist_backend requires_gloo requires_mpi
        requires_multicast_support requires_nccl requires_nccl_shrink requires_nccl_version requires_ucc
        requires_world_size run_subtests skip_if_lt_x_gpu skip_if_no_gpu skip_if_odd_worldsize
        skip_if_rocm_arch_multiprocess skip_if_rocm_multiprocess skip_if_rocm_ver_lessthan_multiprocess
        skip_if_small_worldsize skip_if_win32 sm_is_or_higher_than spawn_threads_and_init_comms
        verify_ddp_error_logged with_dist_debug_levels with_nccl_blocking_wait
    """,
    "common_fsdp": """
        AlwaysWrapNestedWrappedModule DEVICEInitMode DEVICE_TYPE DISTRIBUTED_BACKEND DoubleLinear DummyDDP
        DummyProcessGroup FSDPInitMode FSDPTest FSDPTestContinuous FSDPTestMixin FSDPTestModel
        FSDPTestMultiThread MLP MLPStack MixtureOfExperts ModuleWithDelay NestedLinear NestedWrappedModule
        NestedWrappedModuleWithDelay NonUniformReqGradNWM SkipModel SkipModule TransformerWithSharedParams
        check_sharded_parity get_devtype get_full_params patch_all_gather patch_all_reduce
        patch_foreach_all_gather patch_foreach_reduce patch_post_backward patch_reduce_scatter
        patch_register_post_backward_hook_backward patch_reshard patch_unshard reduce_scatter_with_assert
    """,
    "distributed._tensor.common_dtensor": """
        Attention DEVICE_COUNT DEVICE_TYPE DTensorContinuousTestBase DTensorConverter DTensorOpTestBase
        DTensorTestBase DTensorTestMixin FeedForward LocalDTensorContinuousTestBase LocalDTensorOpTestBase
        LocalDTensorTestBase MLPModule MLPStacked ModelArgs NUM_DEVICES PG_BACKEND RMSNormPython Transformer
        TransformerBlock create_local_tensor_test_class map_local_for_rank map_local_tensor_for_rank
        reduce_local_int skip_unless_torch_gpu with_comms
    """,
    "common_utils": """
        FILE_SCHEMA IS_CI IS_LINUX IS_MACOS IS_SANDCASTLE IS_WINDOWS MI200_ARCH MI300_ARCH MI350_ARCH
        NO_MULTIPROCESSING_SPAWN TEST_ACCELERATOR TEST_CUDA TEST_HPU TEST_MULTIACCELERATOR
        TEST_WITH_DEV_DBG_ASAN TEST_WITH_ROCM TEST_WITH_SLOW TEST_WITH_TSAN TEST_XPU TemporaryDirectoryName
        TemporaryFileName TestCase decorateIf find_free_port freeze_rng_state get_cycles_per_ms
        instantiate_parametrized_tests load_tests parametrize reparametrize retry_on_connect_failures
        run_tests set_rng_seed skipIfRocm skipIfWindows skip_but_pass_in_sandcastle
        skip_but_pass_in_sandcastle_if slowTest subtest
    """,
    "common_cuda": "TEST_CUDA TEST_MULTIGPU",
    "distributed.fake_pg": "FakeStore",
    "distributed.distributed_utils": "with_dist with_fake_comms",
    "distributed.checkpoint_utils": "with_checkpoint_logging with_temp_dir",
    "distributed.multi_threaded_pg": "",
    "distributed.distributed_test": "",
    "dist_utils": "",
    "distributed.rpc_utils": "",
    "distributed.rpc.rpc_agent_test_fixture": "",
    "distributed.rpc.tensorpipe_rpc_agent_test_fixture": "",
    "distributed.rpc.faulty_rpc_agent_test_fixture": "",
    "distributed._shard.sharded_tensor": "",
    "distributed._shard.sharded_tensor._test_st_common": "",
    "distributed._shard.test_common": "",
    "distributed.common_state_dict": "",
    "common_dist_composable": "",
}

# The modules of which every function and class is in a table: all but common_cuda, which is about kernels.
COMPLETE = tuple(module for module in SAME if module != "common_cuda")
_UNKNOWN = "has no counterpart in harness"
# Where these are imported, a file's tests are made for each device type, by torch's own TestCase and
# parametrize: they have to stay together.
DEVICE_TYPE_TESTS = frozenset(
    {"common_device_type", "common_modules", "common_methods_invocations", "opinfo.core"}
)
TOGETHER = frozenset(
    {"TestCase", "decorateIf", "instantiate_parametrized_tests", "parametrize", "reparametrize", "run_tests",
     "subtest", "load_tests"}
)  # fmt: skip
WHY_TOGETHER = "stays beside torch's instantiate_device_type_tests, which knows only torch's"


@dataclass(frozen=True, slots=True)
class Row:
    """A name of torch's: its module below ``HOME``, and its counterpart or the reason why there is none."""

    module: str
    name: str
    counterpart: str | None
    reason: str


def rows() -> Iterator[Row]:
    """All names that are known, module by module."""
    for module, names in SAME.items():
        for name in names.split():
            yield Row(module, name, name, "")
        for reason, without in REASONS[module]:
            for name in without.split():
                yield Row(module, name, None, reason)


_ROWS = {(row.module, row.name): row for row in rows()}
_BY_NAME = {row.name: row for row in _ROWS.values() if row.counterpart}


def is_known_module(module: str) -> bool:
    """Whether ``module`` (a full name) is one of torch's test modules that the tables are about."""
    return module.startswith(f"{HOME}.") and module[len(HOME) + 1 :] in SAME


def find(module: str, name: str) -> Row:
    """What becomes of a name that a file imports from one of torch's modules (a full name).

    A module also offers what it imports from the others, so a name is found by itself where the module has
    none of its own.
    """
    short = module[len(HOME) + 1 :]
    own = _ROWS.get((short, name)) or _BY_NAME.get(name)
    return own if own is not None else Row(short, name, None, _UNKNOWN)
