"""Which name of torch's private test modules has which counterpart in ``harness``, and why others have none.

``counterpart`` and ``reason`` are what the migration asks; ``docs/migration.rst`` shows the same tables. A
function or class of these modules that is in neither table fails
``suites/selftest/migrate/test_names.py``: a release of torch has added it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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
}

_TORCHCOMMS = "is about torchcomms: make the group in an override of _init_pg of MultiProcContinuousTest"
_DEADLINES = "deadlines are @timeout(seconds) on a test, --timeout or HARNESS_TIMEOUT"
_EXPERTS = "the models here have no experts: a ParallelStyle of your own shards yours"
_PLANNER = "is about DTensor's own planner; DTensor.redistribute and distribute_tensor are public"
_THREADED_GROUP = "is the inside of torch's threaded group: MultiThreadedTestCase makes that group"
_WHEEL = "is a test of torch itself, or a part of one: write the few lines that you need"
_OF_TORCHS_RUNNER = "belongs to torch's own runner; run_tests.py and its options are in its place"
_SKIP = "unittest.skipIf says the same of a build or a machine; GPUs are asked for by skip_if_lt_x_gpu"
_XFAIL = "unittest.expectedFailure, under an if, says the same"
_COMPILER = "decides which tests torch's own CI compiles as a whole"
_MATRICES = "makes matrices for tests of linear algebra"
_OPERATORS = "is for torch's own tests of operators"
_COMPARING = "belongs to torch's assertEqual; assertEqual of harness.TestCase compares by itself"
_GUARDS = "is for tests of one process; unittest.mock.patch or contextlib say the same"

# Why a name has no counterpart, by torch's module: pairs of the reason and the names.
REASONS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "common_distributed": (
        (
            _TORCHCOMMS,
            """C10dTorchCommsTestBase TORCHCOMM_HAS_GLOO TORCHCOMM_HAS_NCCL TORCHCOMM_HAS_NCCLX
            TORCHCOMM_HAS_RCCL TORCHCOMM_HAS_RCCLX TORCHCOMM_HAS_XCCL setup_torchcomms_pg""",
        ),
        (_DEADLINES, "TIMEOUT_DEFAULT TIMEOUT_OVERRIDE get_timeout"),
        ("world_size of a case is the number of ranks", "DEFAULT_WORLD_SIZE"),
        ("requires_multicast_support asks for symmetric memory", "PLATFORM_SUPPORTS_SYMM_MEM"),
        ("requires_multicast_support asks for symmetric memory", "evaluate_platform_supports_symm_mem"),
        (
            "a table of what torch's CI runs on which backend; requires_backend says it of a test",
            "DDP_RANK_DEVICES DistTestCases requires_ddp_rank",
        ),
        (
            "with_temp_dir gives all ranks one directory",
            "cleanup_temp_dir initialize_temp_directories tmp_dir",
        ),
        ("asks for a network of torch's rpc tests", "has_efa tp_transports"),
        ("is the inside of torch's MultiProcContinuousTest", "logger retrieve_result_from_completion_queue"),
        (_WHEEL, "simple_sparse_reduce_tests"),
    ),
    "common_fsdp": (
        ("defaults differ: world_size of a case is the number of ranks", "DEVICE_COUNT"),
        ("call module.compile() in a sub-test", "compiled_fsdp_test"),
        ("a sub-test shows its own parameters", "subtest_name"),
    ),
    "distributed._tensor.common_dtensor": (
        (_EXPERTS, "ExpertLayer ExpertParallel ExpertParallelWithTP Experts TensorParallelForExpert"),
        (
            _PLANNER,
            """generate_shard_orders make_full_tensor op_strategy_context patched_distribute_tensor
            redistribute shard_order_to_placement validate_sharding_rule_sample
            validate_sharding_rule_sample_backward""",
        ),
        ("create_local_tensor_test_class wraps what needs it", "make_wrapped"),
    ),
    "distributed.fake_pg": (),
    "distributed.distributed_utils": (
        ("with_dist makes torch's fake group", "MockProcessGroup create_mock_pg mock_init_dist"),
    ),
    "distributed.checkpoint_utils": (
        (
            "an example of a StreamTransformExtension: write your own",
            "Rot13Example get_test_extension_registry",
        ),
    ),
    "distributed.multi_threaded_pg": (
        (
            _THREADED_GROUP,
            """AllGather AllReduce AllToAll AllToAllBase Broadcast Collective Gather ProcessLocalGroup
            ReduceScatter Scatter ThreadLocalWorld WorldData binop_reduce bitwise_reduce flatten_list
            ret_work""",
        ),
    ),
    "distributed.distributed_test": (
        (
            _WHEEL,
            """Barrier BatchNormNet ControlFlowToyModel DDPUnevenTestInput DictOutputModule
            DistributedTest EmbeddingNetDifferentParams Foo LargeNet Net NetWithBuffers Task
            TestBucketCapacityConfig TestBucketCapacityConfigComputeLimits
            TestBucketCapacityConfigConstants TestBucketCapacityConfigEdgeCases TestDistBackend
            TestNamedTupleInput_1 TwoLinLayerNet UnusedParamTwoLinLayerNet
            create_collectives_object_test_list get_profiler_nccl_meta get_profiling_event""",
        ),
        (_DEADLINES, "get_timeout"),
        (
            "requires_backend and requires_world_size say it of a test",
            "require_backend_is_available require_exact_world_size require_world_size",
        ),
    ),
    "common_cuda": (),
    "common_utils": (
        (
            _OF_TORCHS_RUNNER,
            """NoTest TestEnvironment TestCaseBase UnittestPair check_if_enable chunk_list
            check_test_defined_in_running_script discover_test_cases_recursively download_file
            get_pytest_test_cases get_report_path get_test_names lint_test_case_extension
            maybe_load_json parse_cmd_line_args print_repro_on_failure raise_on_run_directly
            resolve_sandcastle_slow_tests_file retry_shell sanitize_pytest_xml sanitize_test_filename
            set_running_script_path settings shell wait_for_process TrackedInput TrackedInputIter
            clear_tracked_input get_tracked_input extract_test_fn skip_if_pytest""",
        ),
        (
            "skip_if_rocm_arch_multiprocess and skip_if_rocm_ver_lessthan_multiprocess say it",
            """getRocmArchName getRocmVersion isRocmArchAnyOf is_navi3_arch skipIfRocmArch
            skipIfRocmVersionLessThan""",
        ),
        ("skipIfRocm(msg=...) has the reason", "skipIfRocm_BUGGY skipRocmIfTorchInductor"),
        ("requires_device_type asks for a device type", "runOnRocm runOnRocmArch requires_cuda_p2p_access"),
        ("exclusive says that a test runs alone", "serialTest"),
        ("slowTest under an if says the same", "slowTestIf"),
        (
            _SKIP,
            """lazy_skip_if skipCUDAMemoryLeakCheckIf skipCUDANonDefaultStreamIf
            skipIfCachingAllocatorDisabled skipIfCompiledWithoutNumpy skipIfCrossRef
            skipIfDSLUnavailable skipIfFreeThreaded skipIfHpu skipIfHpu_BUGGY skipIfLegacyJitExecutor
            skipIfMPS skipIfNNModuleInlined skipIfNoLapack skipIfNoSciPy skipIfNoXNNPACK skipIfNoXPU
            skipIfNotMiopenSuggestNHWC skipIfNotRegistered skipIfPythonVersionMismatch
            skipIfTorchDynamo skipIfTorchInductor skipIfWindowsXPU skipIfXpu skipIfXpu_BUGGY
            skipUnlessDSLAvailable skip_exception_type LazyDSLCheck get_all_dsls get_available_dsls
            is_dsl_available get_gcc_major_version gcIfJetson is_avx512_vnni_supported
            is_privateuse1_backend_available allocator_option_enabled_fn""",
        ),
        (
            _XFAIL,
            """xfailIf xfailIfACL xfailIfLinux xfailIfNoAcceleratorTriton xfailIfPy312Plus xfailIfROCm
            xfailIfS390X xfailIfTorchDynamo xfailIfWindows xfail_inherited_tests xpassIfTorchDynamo_np""",
        ),
        (
            _COMPILER,
            """CrossRefMode make_dynamo_test markDynamoStrictTest runWithoutCompiledAutograd
            unMarkDynamoStrictTest wrapDeterministicFlagAPITest wrapSwapTensorsTest SwapTensorsGuard""",
        ),
        (
            _MATRICES,
            """make_fullrank_matrices_with_distinct_singular_values make_symmetric_matrices
            make_symmetric_pd_matrices random_hermitian_matrix random_hermitian_pd_matrix
            random_hermitian_psd_matrix random_lowrank_matrix random_matrix
            random_matrix_with_scaled_reduction_dim random_sparse_matrix random_sparse_pd_matrix
            random_square_matrix_of_rank random_symmetric_matrix random_symmetric_pd_matrix
            random_symmetric_psd_matrix random_well_conditioned_matrix""",
        ),
        (
            _COMPARING,
            """ObjectPair RelaxedBooleanPair RelaxedNumberPair SetPair StringPair TensorOrArrayPair
            TypePair TypedStoragePair compare_equal_outs_and_grads munge_exc""",
        ),
        (
            _OPERATORS,
            """AlwaysWarnTypedStorageRemoval AssertRaisesContextIgnoreNotImplementedError BytesIOContext
            NestedTensorTestCase ProfilingMode TestGradients bytes_to_scalar clone_input_helper
            coalescedonoff compose_parametrize_fns copy_func cppProfilingFlagsToProfilingMode
            custom_op do_test_dtypes do_test_empty_full dtype_name enable_profiling_mode
            enable_profiling_mode_for_profiling_tests first_sample get_function_arglist
            get_tensors_from has_corresponding_torch_dtype install_cpp_extension find_library_location
            is_coalesced_indices is_iterable is_iterable_of_tensors iter_indices noncontiguous_like
            num_profiled_runs numpy_to_torch_dtype outs_and_grads prof_callable prof_func_call
            prof_meth_call remove_cpp_extensions_build_root remove_device_and_dtype_suffixes
            scoped_load_inline split_if_not_empty swap to_gpu with_ieee_matmul_precision
            recover_orig_fp32_precision setBlasBackendsToDefaultFinally
            setLinalgBackendsToDefaultFinally setSdpaBackendsToDefaultFinally""",
        ),
        ("torch.autograd has these checks; they need no distributed test", "gradcheck gradgradcheck"),
        ("is for CUDA alone: torch.cuda and delay your own stream", "device_sleep cuda_python_error_check"),
        (
            "left-over memory of a rank ends with its process",
            "CudaMemoryLeakCheck check_leaked_tensors disable_gc",
        ),
        (
            _GUARDS,
            """CudaNonDefaultStream CudaSyncGuard DeterministicGuard LazyVal make_lazy_class mock_wrapper
            patch_test_members retry run_concurrently set_cwd set_default_dtype
            set_default_tensor_type set_warn_always_context suppress_warnings""",
        ),
    ),
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
