"""Why a name of torch's private test modules has no counterpart in ``harness``; ``names`` has the others.

One table by module, of a reason and the names that it holds for. A reason says what to use instead where
there is something.
"""

from __future__ import annotations

from collections.abc import Mapping

_TORCHCOMMS = "is about torchcomms: make the group in an override of _init_pg of MultiProcContinuousTest"
_DEADLINES = "deadlines are @timeout(seconds) on a test, --timeout or HARNESS_TIMEOUT"
_EXPERTS = "no experts are in the models here (ModelArgs has no num_experts): a ParallelStyle shards yours"
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
_FACTS = "is a fact of the machine or the build: ask platform, os.environ, importlib or torch for it"
_RPC = "is for torch's own tests of rpc: call rpc.init_rpc in the test, over file_name"
_SHARDED = "is about ShardedTensor, which torch has given up for DTensor: DTensorTestBase"
_MODELS = "is a model of torch's own tests: the models of common_fsdp and common_dtensor are in harness"
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
        ("is a type variable: typing has them", "T TestFunc"),
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
            _WHEEL,
            """EXPECTED_FIELDS TestNamedTupleInput_0 ddp_find_unused_params_enabled_str
            ddp_outputs_not_used_in_loss_str ddp_prev_reduction_unfinished_str
            ddp_recommend_find_unused_params_str ddp_suggest_debug_mode_str f""",
        ),
        (
            _FACTS,
            """BACKEND CUDA_PROFILING_SUPPORTED_BACKENDS HAS_TORCHVISION INIT_METHOD
            PROFILING_SUPPORTED_BACKENDS SEND_RECV_PROFILING_SUPPORTED_BACKENDS skipIfNoTorchVision""",
        ),
        (_DEADLINES, "CUSTOMIZED_TIMEOUT CUSTOM_PG_TIMEOUT DEFAULT_TIMEOUT default_pg_timeout"),
        (
            "requires_backend and requires_world_size say it of a test",
            "require_backend_is_available require_exact_world_size require_world_size",
        ),
    ),
    "common_cuda": (),
    "dist_utils": (
        (
            _RPC,
            """INIT_METHOD_TEMPLATE dist_init get_function_event get_num_owners_and_forks noop
            wait_until_node_failure wait_until_owners_and_forks_on_rank
            wait_until_pending_futures_and_users_flushed worker_name""",
        ),
        ("create_pg of DistributedTestBase makes the group", "initialize_pg"),
    ),
    "distributed.rpc_utils": (
        (
            _RPC,
            """FAULTY_AGENT_TESTS GENERIC_CUDA_TESTS GENERIC_TESTS SpawnHelper TENSORPIPE_CUDA_TESTS
            TENSORPIPE_TESTS generate_tests""",
        ),
    ),
    "distributed.rpc.rpc_agent_test_fixture": ((_RPC, "RpcAgentTestFixture"),),
    "distributed.rpc.tensorpipe_rpc_agent_test_fixture": ((_RPC, "TensorPipeRpcAgentTestFixture"),),
    "distributed.rpc.faulty_rpc_agent_test_fixture": (
        (_RPC, "FaultyRpcAgentTestFixture default_messages_to_delay retryable_message_types"),
    ),
    "distributed._shard.sharded_tensor": ((_SHARDED, "ShardedTensorTestBase TEST_GPU_NUM with_comms"),),
    "distributed._shard.sharded_tensor._test_st_common": (
        (_SHARDED, "DEFAULT_GPU_NUM MyShardedModel1 MyShardedModel2 PLACEMENTS"),
    ),
    "distributed._shard.test_common": ((_MODELS, "SimpleMegatronLM"),),
    "distributed.common_state_dict": (
        (
            "checks state dicts of torch's own tests: get_state_dict and assertEqual of harness.TestCase do",
            "VerifyStateDictMixin",
        ),
        (_MODELS, "FusionEmbedding FusionEmbeddingWithHook FusionEmbeddingWithModifier"),
    ),
    "common_dist_composable": (
        (
            _MODELS,
            """CompositeModel CompositeParamModel FakeSequential NestedSequentialModel UnitModule
            UnitParamModule""",
        ),
    ),
    "common_utils": (
        ("requires_device_type asks for a device type", "requires_cuda"),
        ("each test is seeded by --seed or HARNESS_SEED", "SEED"),
        ("retry_on_connect_failures knows these messages", "ADDRESS_IN_USE CONNECT_TIMEOUT"),
        (
            _FACTS,
            """ACCELERATOR_TYPE EXPANDABLE_SEGMENTS IS_ARM64 IS_AVX512_VNNI_SUPPORTED IS_CPU_CAPABILITY_SVE
            IS_CPU_CAPABILITY_SVE256 IS_CPU_EXT_SVE_SUPPORTED IS_FBCODE
            IS_FILESYSTEM_UTF8_ENCODING IS_JETSON IS_PPC IS_REMOTE_GPU IS_S390X IS_X86
            MACOS_VERSION NAVI3_ARCH NAVI4_ARCH NAVI_ARCH NOTEST_CPU TEST_ACL TEST_CUDA_CUDSS
            TEST_CUDA_GRAPH TEST_CUDA_GRAPH_CONDITIONAL_NODES TEST_CUDA_PYTHON_BINDINGS
            TEST_CUTEDSL TEST_DILL TEST_FAIRSEQ TEST_LIBROSA TEST_MKL TEST_MPS TEST_NUMBA
            TEST_NUMPY TEST_NVMATH TEST_ONEDNN TEST_OPT_EINSUM TEST_PRIVATEUSE1
            TEST_PRIVATEUSE1_DEVICE_TYPE TEST_SCIPY TEST_TRANSFORMERS TEST_TRITON_DSL
            TEST_WITH_ASAN TEST_WITH_MIOPEN_SUGGEST_NHWC TEST_WITH_MTIA TEST_WITH_SLOW_GRADCHECK
            TEST_WITH_TV TEST_WITH_UBSAN TEST_Z3 custom_device_mod gb_available""",
        ),
        (
            _OF_TORCHS_RUNNER,
            """DEFAULT_DISABLED_TESTS_FILE DEFAULT_SLOW_TESTS_FILE DISABLED_TESTS_FILE
            DISABLE_RUNNING_SCRIPT_CHK IN_RE_WORKER LOG_SUFFIX PRINT_REPRO_ON_FAILURE
            PYTEST_SINGLE_TEST REPEAT_COUNT RERUN_DISABLED_TESTS RUN_PARALLEL SHOWLOCALS
            SLOW_TESTS_FILE TEST_BAILOUTS TEST_CUDA_MEM_LEAK_CHECK TEST_DISCOVER
            TEST_IN_SUBPROCESS TEST_SAVE_XML TEST_SKIP_FAST UNITTEST_ARGS USE_PYTEST check_names
            disabled_tests_dict has_pytest log num_procs running_script_path slow_tests_dict
            slow_tests_file""",
        ),
        (
            _OPERATORS,
            """ALLOW_XPU_PROFILING_TEST DEVICE_LIST_SUPPORT_PROFILING_TEST GRADCHECK_NONDET_TOL GRAPH_EXECUTOR
            NATIVE_DEVICES OPINFO_RESTRICT_TO_DSL OPINFO_SAMPLE_INPUT_INDEX T dtype2prec_DONTUSE
            func_call meth_call numpy_to_torch_dtype_dict torch_to_numpy_dtype_dict""",
        ),
        (
            _COMPILER,
            """TEST_SKIP_CUDAGRAPH TEST_WITHOUT_COMPILED_AUTOGRAD TEST_WITH_AOT_EAGER TEST_WITH_CROSSREF
            TEST_WITH_TORCHDYNAMO TEST_WITH_TORCHINDUCTOR""",
        ),
        (
            _SKIP,
            """requires_mkl requires_onednn skipIfNoCuteDSL skipIfNoDill skipIfNoNvmath skipIfNoTritonDSL
            skipIfSlowGradcheckEnv""",
        ),
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
