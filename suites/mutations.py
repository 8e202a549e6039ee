"""What reviewers found out about the mutants that ``tools/mutate.py`` makes of torch's source."""

from __future__ import annotations

# Mutants that nothing can notice, as the tool names them, each with the reason.
EQUIVALENT: dict[str, str] = {
    "torch/distributed/fsdp/_unshard_param_utils.py _unshard_fsdp_state_params: "
    "offload_to_cpu and handle.uses_sharded_strategy => offload_to_cpu": (
        "the arguments are checked first, and offloading what is not sharded is refused there"
    ),
    "torch/distributed/tensor/_ops/utils.py expand_to_full_mesh_op_strategy: "
    "spec_list => reversed(list(spec_list))": (
        "the loop asks whether any spec mixes kinds of partial sums, in whatever order"
    ),
    "torch/distributed/tensor/_ops/_math_ops.py linalg_replicate_strategy: DTensorSpec(mesh=mesh, "
    "placements=replicate_placements, tensor_meta=placement_strategy.output_spec.tensor_ ... => "
    "DTensorSpec(mesh=mesh, placements=replicate_placements)": (
        "the propagator gives specs that metadata again, and costs are of what is there already"
    ),
    "torch/distributed/tensor/_dtensor_spec.py DTensorSpec.is_sharded: self.placements => "
    "reversed(list(self.placements))": "it is asked whether any placement is a shard, in whatever order",
    "torch/distributed/tensor/_collective_utils.py mesh_scatter: scatter(output, "
    "scatter_list=scatter_list, group=dim_group, async_op=async_op, group_src=group_src) => "
    "scatter(output, scatter_list=scatter_list, group=dim_group, group_src=group_src)": (
        "no caller asks for a scatter in the background"
    ),
    "torch/distributed/tensor/_ops/_view_ops.py _ViewShardingPropagator._rewrite_plain_shard: "
    "input_to_output_tensor_dims[p.dim] => reversed(list(input_to_output_tensor_dims[p.dim]))": (
        "of several dimensions the one that is the first of a split is taken, and there is one such"
    ),
    "torch/distributed/tensor/_ops/single_dim_strategy.py "
    "_expand_single_dim_strategy_to_mesh._create_expanded_strategy_impl.expanded_strategy: "
    "expand_to_full_mesh_op_strategy(element_mesh, op_schema, prepared_strategy.expanded_strategies, "
    "output_ten ... => "
    "expand_to_full_mesh_op_strategy(element_mesh, op_schema, prepared_strategy.expanded_strategies, "
    "inplace_op ...": "the propagator gives the results' specs that metadata again once one is chosen",
    "torch/distributed/tensor/parallel/loss.py _nll_loss_forward: local_weight is None => False": (
        "the only caller makes the local weight wherever there is a weight"
    ),
    "torch/_functorch/_aot_autograd/functional_utils.py is_fun: "
    "isinstance(t, Tensor) and is_traceable_wrapper_subclass(t) => is_traceable_wrapper_subclass(t)": (
        "a traceable wrapper subclass is a tensor, which the other function asks itself"
    ),
    "torch/_functorch/_aot_autograd/runtime_wrappers.py _AOTDispatchAutogradFunctionFactory.build: "
    "num_outputs_aliased > 0 => True": ("where no output is an alias the loop over them has no turn"),
    "torch/_functorch/_aot_autograd/subclass_codegen.py _compile_and_exec_source: "
    "log.isEnabledFor(logging.DEBUG) => not log.isEnabledFor(logging.DEBUG)": (
        "it decides what a log is told"
    ),
    "torch/_functorch/_aot_autograd/graph_capture.py aot_dispatch_autograd_graph: "
    "aot_config.is_export and maybe_subclass_meta is not None => False": (
        "export has refused subclass tensors before it captures a graph"
    ),
    "torch/distributed/tensor/_tp_conv.py tp_convolution_backward: rank - 1 + size => rank - 1 - size": (
        "the remainder by the size is taken of it, which is the same"
    ),
    "torch/distributed/tensor/_tp_conv.py tp_convolution_backward: not isinstance(padding, list) => False": (
        "the dispatcher gives every operator a list where its schema says SymInt[]"
    ),
    "torch/distributed/tensor/_shards_wrapper.py LocalShardsWrapper.handle_to_copy: "
    "aten._to_copy.default(shard, *args[1:], **kwargs) => aten._to_copy.default(shard, **kwargs)": (
        "all arguments of that operator but the first have to be named"
    ),
    "torch/nn/parallel/distributed.py DistributedDataParallel._default_broadcast_coalesced: "
    "bucket_size is None => True": ("no caller gives a size"),
    "torch/_functorch/_aot_autograd/aot_autograd_result.py "
    "GenericAOTAutogradResult._log_cached_graphs: self.aot_backward_graph_str is not None => True": (
        "it decides what a log is told"
    ),
    "torch/distributed/tensor/_ops/_view_ops.py infer_size: torch._check(total_size % size == 0, "
    "lambda: f'size inferred for -1 is not integral {sizes} should have {t ... => "
    "torch._check(total_size % size == 0)": ("it is the words of an error"),
    "torch/distributed/fsdp/_flat_param.py FlatParameter._init_metadata: len(param_infos) != "
    "len(shapes) => False": ("the lists that are compared are filled side by side"),
    "torch/_dynamo/backends/distributed.py pretty_print_buckets: for idx, bucket in "
    "enumerate(reversed(buckets)): ... => ends after its first turn": (
        "it decides what a log is told of buckets"
    ),
    "torch/distributed/tensor/_ops/single_dim_strategy.py _has_default_value: "
    "callable(has_default_value) => True": ("every argument of a schema has that method"),
    "torch/_functorch/_aot_autograd/runtime_wrappers.py _codegen_compiled_forward: 2 => 1": (
        "the list is made of the results in the region or behind it"
    ),
    "torch/distributed/fsdp/_fully_shard/_fsdp_common.py _cast_fp_tensor: not isinstance(x, "
    "torch.Tensor) or not torch.is_floating_point(x) or x.dtype == dtype => not "
    "torch.is_floating_point(x) or x.dtype == dtype": (
        "it is applied to tensors alone, which its callers see to"
    ),
    "torch/nn/parallel/distributed.py _find_tensors: fields(obj) => reversed(list(fields(obj)))": (
        "it is asked which parameters the tensors depend on, in whatever order"
    ),
    "torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py powerSGD_hook: state.warm_start => "
    "not state.warm_start": ("it decides what a log is told"),
    "torch/distributed/fsdp/_optim_utils.py _shard_orig_param_state: optim_state.items() => "
    "reversed(list(optim_state.items()))": ("a dictionary of states is made, in whatever order"),
    "torch/_functorch/partitioners.py get_default_op_list: aten.where => aten.zeros": (
        "both are pointwise or in the list a second time: the set is the same"
    ),
    "torch/_functorch/_aot_autograd/graph_compile.py aot_stage1_graph_capture: True => False": (
        "it decides what a log is told"
    ),
    "torch/distributed/fsdp/_fully_shard/_fsdp_param.py FSDPParam.free_unsharded_param: "
    "itertools.chain(self.all_gather_outputs, self._unsharded_inner_tensors) => "
    "reversed(list(itertools.chain(self.all_gather_outputs, self._unsharded_inner_tensors)))": (
        "storages are freed, each by itself, in whatever order"
    ),
    "torch/distributed/fsdp/_debug_utils.py SimpleProfiler.dump_and_reset: 0 => 1": (
        "it decides what a log is told"
    ),
    "torch/distributed/tensor/_dispatch.py OpDispatcher._dispatch_fast_path_python_tail: "
    "participating and op_call._schema._is_view_op() => False": (
        "aten.equal, which alone gets there, is no view"
    ),
    "torch/_functorch/_aot_autograd/graph_capture_wrappers.py set_partitioner_tag: "
    "fx_traceback.current_meta.get(meta_key, None) => fx_traceback.current_meta.get(meta_key)": (
        "None is what is had without it, too"
    ),
    "torch/distributed/tensor/_ops/_tensor_ops.py split_strategy: range(len(output_size_list)) => "
    "reversed(list(range(len(output_size_list))))": ("only the length of the range counts"),
    "torch/_functorch/_aot_autograd/autograd_cache.py sanitize_gm_for_cache: saved_fields.items() => "
    "reversed(list(saved_fields.items()))": ("fields are put back, each by itself, in whatever order"),
    "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py foreach_reduce: padded_unsharded_sizes "
    "=> reversed(list(padded_unsharded_sizes))": ("a sum is taken, in whatever order"),
    "torch/_functorch/partitioners.py solve_min_cut.should_ban_recomputation: config.recompute_views "
    "=> config.treat_parameters_as_free_to_save": (
        "a view is never banned from being computed again, whatever is said here"
    ),
    "torch/distributed/fsdp/_optim_utils.py _allgather_state_info: input_states.items() => "
    "reversed(list(input_states.items()))": (
        "the states are gathered by all ranks in one order, whichever, into a dictionary"
    ),
    "torch/_functorch/_aot_autograd/frontend_utils.py process_inputs.convert: attrs => "
    "reversed(list(attrs))": ("the loop asks whether all inner tensors are of this mode, in whatever order"),
    "torch/distributed/fsdp/_flat_param.py FlatParamHandle._deregister_orig_params: "
    "self.flat_param._shared_param_infos => reversed(list(self.flat_param._shared_param_infos))": (
        "attributes are deleted, each by itself, in whatever order"
    ),
    "torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py PowerSGDState.__init__: "
    "max(1, compression_stats_logging_frequency) => max(compression_stats_logging_frequency, 1)": (
        "the larger of two numbers is the same in either order"
    ),
    "torch/distributed/distributed_c10d.py _use_torchcomms_enabled: "
    "return _TORCHCOMM_AVAILABLE and dist_config.use_torchcomms => return None": (
        "callers only ask whether it is true, which it is not without torchcomms"
    ),
    "torch/distributed/distributed_c10d.py reduce: "
    "_canonicalize_group_rank(group, dst, group_dst, return_global=False) => "
    "_canonicalize_group_rank(group, dst, group_dst)": ("it is the default"),
    "torch/distributed/distributed_c10d.py gather_object: "
    "enumerate(output_tensors) => reversed(list(enumerate(output_tensors)))": (
        "each place of the list is filled for itself"
    ),
    "torch/distributed/distributed_c10d.py _tensor_to_object: "
    "get_debug_level() == DebugLevel.DETAIL and is_nccl_available() => "
    "get_debug_level() == DebugLevel.DETAIL or is_nccl_available()": (
        "what follows asks whether the group is of NCCL, and does nothing for others"
    ),
    "torch/distributed/fsdp/fully_sharded_data_parallel.py FullyShardedDataParallel._optim_state_dict_impl: "
    "FullyShardedDataParallel.fsdp_modules(model) => "
    "reversed(list(FullyShardedDataParallel.fsdp_modules(model)))": (
        "whether all are alike does not depend on their order"
    ),
    "torch/nn/parallel/distributed.py DistributedDataParallel._match_all_reduce_for_bwd_pass: "
    "comm_work => reversed(list(comm_work))": ("all are waited for, in whatever order"),
    "torch/nn/parallel/distributed.py DistributedDataParallel._register_builtin_comm_hook: "
    "self.logger => self.reducer": ("the constructor has made both before a hook can be registered"),
    "torch/_dynamo/compiled_autograd.py AutogradCompilerInstance.end_capture: "
    "['tensor_meta', 'example_value', 'val'] => reversed(list(['tensor_meta', 'example_value', 'val']))": (
        "each of the fields is deleted for itself"
    ),
    "torch/distributed/tensor/_sharding_prop.py _select_min_redistribute_cost: "
    "costs => reversed(list(costs))": ("the symbols of all costs become a set"),
    "torch/distributed/tensor/placement_types.py _StridedShard._to_replicate_tensor: "
    "torch.Tensor => torch._prims_common": ("typing.cast does not look at its first argument"),
    "torch/distributed/utils.py _recursive_to.to_map: device == target_device => True": (
        "on a CPU there is no device but the target"
    ),
    "torch/distributed/distributed_c10d.py gather_object: "
    "torch.empty(max_object_size * group_size, dtype=torch.uint8, device=current_device) => "
    "torch.empty(max_object_size * group_size, dtype=torch.uint8)": (
        "gloo's objects travel on the CPU, where tensors are made"
    ),
    "torch/distributed/fsdp/_fully_shard/_fsdp_init.py _ignore_module: "
    "ignore_decision[module] = False => pass": ("it keeps what would be found again"),
    "torch/distributed/fsdp/_fully_shard/_fsdp_param.py FSDPParam.reset_sharded_param: "
    "self.pin_memory and (not local_tensor.is_pinned()) => self.pin_memory": (
        "what is pinned is itself where it is pinned again"
    ),
    "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py FSDPParamGroup._init_mp_dtypes: 0 => 1": (
        "one parameter has one type"
    ),
    "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py FSDPParamGroup._init_mp_dtypes: "
    "self.fsdp_params => reversed(list(self.fsdp_params))": (
        "each parameter learns its own types, in whatever order"
    ),
    "torch/distributed/fsdp/_state_dict_utils.py _full_pre_state_dict_hook: "
    "getattr(fsdp_state, '_device_mesh', False) => False": ("what it then asks the mesh for is not used"),
    "torch/distributed/fsdp/_fully_shard/_fsdp_init.py _get_mesh_info_from_named_dims._get_submesh: "
    "len(names) == 1 => False": "one dimension that is flattened under its own name is itself",
    "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py FSDPParamGroup.post_backward: "
    "self.device.type != 'cpu' => False": (
        "what is all-reduced comes with its event, or neither is there, on every device"
    ),
    "torch/distributed/fsdp/_flat_param.py FlatParameter._init_metadata: "
    "shared_params is None or len(shared_params) != len(shared_param_infos) => "
    "len(shared_params) != len(shared_param_infos)": (
        "parameters without shared ones have been refused by then"
    ),
    "torch/distributed/fsdp/_state_dict_utils.py _common_unshard_post_state_dict_hook: "
    "_exit_unshard_params_ctx(module, fsdp_state) => _exit_unshard_params_ctx(fsdp_state, module)": (
        "an FSDP1 module is its own state"
    ),
    "torch/distributed/fsdp/_flat_param.py FlatParamHandle._init_flat_param_and_metadata: "
    "self.rank == 0 => True": "it decides on which ranks a log is told",
    "torch/distributed/fsdp/_flat_param.py FlatParamHandle._init_flat_param_and_metadata: "
    "self.rank == 0 and aligned_numel > 0 and (total_numel != total_numel_without_padding) => "
    "aligned_numel > 0 and total_numel != total_numel_without_padding": (
        "it decides on which ranks a log is told"
    ),
    "torch/distributed/fsdp/_state_dict_utils.py _local_post_state_dict_hook: "
    "_module_handle(fsdp_state, module) => _module_handle(module, fsdp_state)": (
        "an FSDP1 module is its own state"
    ),
    "torch/distributed/fsdp/_shard_utils.py _create_chunk_sharded_tensor: "
    "len(chunk_sizes) != len(chunk_offsets) or len(chunk_sizes) != len(placements) => "
    "len(chunk_sizes) != len(placements)": "offsets and placements are made one for each chunk",
    "torch/distributed/fsdp/_shard_utils.py _create_chunk_sharded_tensor: "
    "len(chunk_sizes) != len(chunk_offsets) or len(chunk_sizes) != len(placements) => "
    "len(chunk_sizes) != len(chunk_offsets)": "offsets and placements are made one for each chunk",
    "torch/distributed/fsdp/_shard_utils.py _create_chunk_sharded_tensor: "
    "len(chunk_sizes) != len(chunk_offsets) or len(chunk_sizes) != len(placements) => False": (
        "offsets and placements are made one for each chunk"
    ),
    "torch/distributed/fsdp/_optim_utils.py _allgather_orig_param_states: "
    "local_buffers => reversed(list(local_buffers))": "their sizes are summed, in whatever order",
    "torch/distributed/fsdp/_fully_shard/_fsdp_param.py FSDPParam._init_sharding_spec: "
    "self.is_dtensor and self.mesh_info.is_spmd_mesh => self.mesh_info.is_spmd_mesh": (
        "a plain parameter on such a mesh has been refused by then"
    ),
    "torch/distributed/fsdp/_state_dict_utils.py _common_unshard_post_state_dict_hook: "
    "fsdp_state._state_dict_config.offload_to_cpu and buffer.device != cpu_device => "
    "fsdp_state._state_dict_config.offload_to_cpu": "a tensor on the CPU that is moved there is itself",
    "torch/distributed/fsdp/_state_dict_utils.py _post_state_dict_hook: "
    "for key, tensor in sorted(processed_state_dict.items()): ... => ends after its first turn": (
        "it decides what a log is told"
    ),
    "torch/distributed/fsdp/_optim_utils.py _flatten_optim_state: "
    "num_unflat_params <= 0 => num_unflat_params < 0": ("a flat parameter is made of at least one"),
    "torch/_functorch/_aot_autograd/utils.py is_with_effects: "
    "node.op == 'call_function' and node.target is torch.ops.higher_order.with_effects => "
    "node.target is torch.ops.higher_order.with_effects": "nodes that call no function have names as targets",
    "torch/distributed/tensor/_ops/_matrix_ops.py gen_single_dim_einsum_strategies._derive_bias_placement: "
    "broadcast_dims_map is None => False": (
        "it is asked only where there is a bias, and then there is a map"
    ),
    "torch/distributed/fsdp/_unshard_param_utils.py _register_flat_param: "
    "_module_handle(state, module) => _module_handle(module, state)": (
        "the state of a wrapped module is the wrapped module itself"
    ),
    "torch/distributed/algorithms/_comm_hooks/default_hooks.py allreduce_hook: "
    "state.gradient_predivide_factor > 1 => state.gradient_predivide_factor >= 1": (
        "a division by 1 changes nothing"
    ),
    "torch/distributed/algorithms/_comm_hooks/default_hooks.py allreduce_hook: "
    "state.gradient_postdivide_factor > 1 => state.gradient_postdivide_factor >= 1": (
        "a division by 1 changes nothing"
    ),
    "torch/distributed/algorithms/_comm_hooks/default_hooks.py reduce_scatter_hook: "
    "state.gradient_predivide_factor > 1 => state.gradient_predivide_factor >= 1": (
        "a division by 1 changes nothing"
    ),
    "torch/distributed/algorithms/_comm_hooks/default_hooks.py reduce_scatter_hook: "
    "state.gradient_postdivide_factor > 1 => state.gradient_postdivide_factor >= 1": (
        "a division by 1 changes nothing"
    ),
    "torch/nn/parallel/distributed.py DistributedDataParallel._register_delay_all_reduce_hook: "
    "self.module.named_modules() => reversed(list(self.module.named_modules()))": (
        "it is asked whether any parameter is left, in whatever order"
    ),
    "torch/nn/parallel/distributed.py DistributedDataParallel._ddp_init_helper: "
    "self.output_device => self.process_group": "a model on the CPU has no output device",
    "torch/distributed/distributed_c10d.py _new_process_group_helper: "
    "backend_str == Backend.UCC and is_ucc_available() => False": "no build for the CPU has UCC",
    "torch/distributed/distributed_c10d.py _cleanup_process_group_global_state: "
    "_world.pg_coalesce_state.pop(pg, None) => _world.pg_coalesce_state.pop(pg)": (
        "it is the last of what is tried, and its error is only logged"
    ),
    "torch/distributed/distributed_c10d.py _object_to_tensor: "
    "torch.ByteTensor(byte_storage).to(device) => torch.ByteTensor(byte_storage).to()": (
        "gloo's objects travel on the CPU, where tensors are made"
    ),
    "torch/distributed/distributed_c10d.py _destroy_all_other_groups: exclude_group is not None and "
    "pg == exclude_group => pg == exclude_group": "no group is equal to None",
    "torch/distributed/distributed_c10d.py destroy_process_group: _TORCHCOMM_AVAILABLE => False": (
        "without torchcomms it is false, and without a group of it nothing follows"
    ),
    "torch/_dynamo/backends/distributed.py propagate_dynamo_source: "
    "module.graph.find_nodes(op='placeholder') => "
    "reversed(list(module.graph.find_nodes(op='placeholder')))": (
        "each input of a piece is given the source of its own name, in whatever order"
    ),
    "torch/distributed/fsdp/_fully_shard/_fsdp_state.py FSDPState._reset_iter_state: "
    "state._fsdp_param_groups => reversed(list(state._fsdp_param_groups))": (
        "each group forgets what is its own, in whatever order"
    ),
    "torch/distributed/fsdp/_flat_param.py FlatParamHandle._use_sharded_grad_views: "
    "flat_param._shared_params is None => False": (
        "it is called only where original parameters are kept, and there the shared ones are listed, too"
    ),
    "torch/_functorch/partitioners.py solve_min_cut.is_fusible: "
    "can_fuse_into_triton_kernel_wrapper_functional(a, b) => False": (
        "graphs for the CPU have no Triton kernels"
    ),
    "torch/_functorch/partitioners.py solve_min_cut.is_fusible: "
    "can_fuse_into_triton_kernel_wrapper_functional(a, b) => "
    "can_fuse_into_triton_kernel_wrapper_functional(b, a)": "graphs for the CPU have no Triton kernels",
    "torch/_functorch/partitioners.py classify_nodes: forward_only_graph.nodes => "
    "reversed(list(forward_only_graph.nodes))": (
        "these nodes are sorted wherever their order counts, and asked for otherwise"
    ),
    "torch/_functorch/_aot_autograd/graph_compile.py _aot_stage2b_bw_compile: break => pass": (
        "the strides that are left can only say again that some differ"
    ),
    "torch/distributed/fsdp/_state_dict_utils.py _sharded_pre_state_dict_hook: "
    "_has_fsdp_params(fsdp_state, module) => _has_fsdp_params(module, fsdp_state)": (
        "the state of a module of FSDP1 is the module itself"
    ),
    "torch/distributed/tensor/_shards_wrapper.py LocalShardsWrapper.handle_equal: "
    "aten.equal.default(x, y) => aten.equal.default(y, x)": "two tensors are equal either way round",
    "torch/_functorch/_aot_autograd/autograd_cache.py check_node_safe: "
    "getattr(node.target, '__module__', None) => getattr(node.target, '__module__')": (
        "what may be cached is asked of the function's module first, without a default"
    ),
    "torch/distributed/tensor/_shards_wrapper.py LocalShardsWrapper.handle_clone: "
    "shard.clone(memory_format=desired_memory_format) => shard.clone()": (
        "other formats than the default one have been refused"
    ),
    "torch/distributed/fsdp/_init_utils.py _move_module_to_device: "
    "curr_module.buffers(recurse=False) => reversed(list(curr_module.buffers(recurse=False)))": (
        "each buffer is moved by itself, in whatever order"
    ),
    "torch/distributed/tensor/_sharding_prop.py ShardingPropagator.propagate_op_sharding_non_cached: "
    "output_strategy.output_spec => output_strategy.output_specs": (
        "each of the operators whose shapes are rewritten has one result, and its spec is both"
    ),
    "torch/_functorch/partitioners.py has_recomputable_rng_ops: fx_g.graph.nodes => "
    "reversed(list(fx_g.graph.nodes))": "it is asked whether any node is such a one, in whatever order",
    "torch/_functorch/partitioners.py solve_min_cut.is_materialized: node.users => "
    "reversed(list(node.users))": "it is asked of all users, in whatever order",
    "torch/_functorch/partitioners.py solve_min_cut.find_first_unfusible: start_nodes => "
    "reversed(list(start_nodes))": "they go into a heap, by places that differ",
    "torch/_functorch/partitioners.py solve_min_cut: cannot_save_reason and (weight == math.inf or weight == "
    "INT_INF) => not (cannot_save_reason and (weight == math.inf or weight == INT_INF))": (
        "both edges have the weight; it is the words of an error"
    ),
    "torch/_functorch/_aot_autograd/subclass_codegen.py _codegen_unwrap_subclass: "
    "state.emit(f'unwrapped_args.append({_safe_attr_access(var, attr)})', indent=indent) => "
    "state.emit(f'unwrapped_args.append({_safe_attr_access(var, attr)})')": (
        "all callers say one step, which is what it is without"
    ),
    "torch/distributed/fsdp/_init_utils.py _get_ignored_params: ignored_parameters => "
    "reversed(list(ignored_parameters))": "a set is made, in whatever order",
    "torch/distributed/distributed_c10d.py _abort_process_group: _world.pg_map => _world.pg_names": (
        "whatever registers a group enters it in both, and whatever ends one takes it out of both"
    ),
    "torch/_functorch/partitioners.py classify_nodes: enumerate(primal_inputs) => "
    "reversed(list(enumerate(primal_inputs)))": (
        "each caller asks whether a node is in the set, in whatever order"
    ),
    "torch/_functorch/_aot_autograd/graph_compile.py _partition_joint_graph_into_fw_bw: 'fwd_rng_state' => "
    "'fwd_rng_state_'": "the partitioner, which alone makes such inputs, numbers them behind that line",
    "torch/distributed/tensor/_api.py distribute_tensor: range(device_mesh.ndim) => "
    "reversed(list(range(device_mesh.ndim)))": "the placements that are made are all the same",
    "torch/distributed/tensor/_ops/_math_ops.py pooling_strategy: Partial('sum') => Partial()": (
        "a sum is what is partial by default"
    ),
    "torch/distributed/tensor/_redistribute.py _optimize_transform_infos.try_create_flattened: "
    "Partial('sum') => Partial()": "a sum is what is partial by default",
    "torch/distributed/tensor/_ops/single_dim_strategy.py _get_num_tensor_inputs._count: obj.children"
    " => reversed(list(obj.children))": "they are counted, in whatever order",
    "torch/distributed/tensor/_ops/single_dim_strategy.py _get_num_tensor_inputs: "
    "op_schema.args_schema => reversed(list(op_schema.args_schema))": ("they are counted, in whatever order"),
    "torch/distributed/tensor/_dtensor_spec.py DTensorSpec.is_replicated: self.placements => "
    "reversed(list(self.placements))": "it is asked of all placements, in whatever order",
    "torch/distributed/tensor/_redistribute.py _gen_transform_infos_non_cached: (src_shard_order, "
    "dst_shard_order) => reversed(list((src_shard_order, dst_shard_order)))": (
        "it is asked of both, in whatever order"
    ),
    "torch/distributed/tensor/_redistribute.py _gen_transform_infos_non_cached: "
    "(*src_spec.placements, *dst_spec.placements) => reversed(list((*src_spec.placements, "
    "*dst_spec.placements)))": "it is asked of all placements, in whatever order",
    "torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py _orthogonalize_gram_schmidt: i + 1 "
    "< num_cols => i + 1 <= num_cols": "behind the last column there is none to be changed",
    "torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py powerSGD_hook: qs => "
    "reversed(list(qs))": "each is made orthogonal by itself, in whatever order",
    "torch/distributed/_functional_collectives.py all_gather_inplace: tensor_list => "
    "reversed(list(tensor_list))": "it is asked of all tensors, in whatever order",
    "torch/distributed/tensor/_api.py distribute_module.replicate_module_params_buffers: "
    "m._buffers.items() => reversed(list(m._buffers.items()))": (
        "each buffer is replaced by itself, in whatever order"
    ),
    "torch/distributed/tensor/_ops/_math_ops.py group_norm_strategy: args_schema => "
    "reversed(list(args_schema))": "they are counted, in whatever order",
    "torch/distributed/tensor/placement_types.py Shard._maybe_pad_tensor: 1 => 0": (
        "what is padded does not divide evenly, and is rounded up by either"
    ),
    "torch/distributed/tensor/_nonlinear_redux.py _get_expected_shape: torch.Size([]) => torch.Size()": (
        "the size without dimensions is what Size() makes"
    ),
    "torch/distributed/tensor/parallel/style.py RowwiseParallel._partition_linear_fn: "
    "distribute_tensor(module.bias, device_mesh, [Replicate()], src_data_rank=self.src_data_rank) => "
    "distribute_tensor(module.bias, device_mesh, src_data_rank=self.src_data_rank)": (
        "a tensor is replicated by default"
    ),
    "torch/distributed/tensor/_tp_conv.py tp_convolution_backward: "
    "torch.nn.functional.pad(grad_out_tensor, (0, padding_w), 'constant', 0) => "
    "torch.nn.functional.pad(grad_out_tensor, (0, padding_w), 'constant')": (
        "noughts are what is padded with by default"
    ),
    "torch/distributed/tensor/_tp_conv.py tp_convolution_backward: "
    "torch.nn.functional.pad(grad_out_tensor, (padding_w, 0), 'constant', 0) => "
    "torch.nn.functional.pad(grad_out_tensor, (padding_w, 0), 'constant')": (
        "noughts are what is padded with by default"
    ),
    "torch/distributed/tensor/_tp_conv.py tp_convolution: torch.Tensor => torch._ops": (
        "cast gives what it is given, of whatever type"
    ),
    "torch/distributed/tensor/_sharding_prop.py ShardingPropagator.propagate_op_sharding_non_cached: "
    "op_schema.op => op_schema.args_schema": "the operator is for the words of an error",
    "torch/distributed/fsdp/_exec_order_utils.py _ExecOrderData.get_handle_to_backward_prefetch: "
    "range(self._backward_prefetch_limit) => reversed(list(range(self._backward_prefetch_limit)))": (
        "only the number of turns counts, for the number of a turn is not read"
    ),
    "torch/distributed/algorithms/_comm_hooks/default_hooks.py _low_precision_hook: "
    "output.dtype => output.data": "it is cast then always, which leaves what has the type already",
    "torch/distributed/tensor/_redistribute.py _optimize_transform_infos: "
    "len(transform_infos) < 2 => False": "one step is merged with none, and no steps are none",
    "torch/distributed/tensor/_collective_utils.py check_tensor_meta: gathered_metadata => "
    "reversed(list(gathered_metadata))": "it is asked whether all are alike, in whatever order",
    "torch/distributed/fsdp/fully_sharded_data_parallel.py _get_grad_norm: grads => reversed(list(grads))": (
        "a norm of norms asks for no order, but for its last digit"
    ),
    "torch/_functorch/_aot_autograd/autograd_cache.py check_node_safe: "
    "node.meta and node.meta.get('is_wrapped', False) => node.meta.get('is_wrapped', False)": (
        "an empty meta has no such key either"
    ),
    "torch/_dynamo/compiled_autograd.py copy_slices_prologue: grad is None => False": (
        "its method was called two lines before"
    ),
    "torch/distributed/fsdp/_flat_param.py FlatParamHandle._init_flat_param_and_metadata: numel_to_pad > 0 "
    "and numel_to_pad < aligned_numel => numel_to_pad < aligned_numel": (
        "what is missing at the end of a row of n is one of 1 to n"
    ),
    "torch/distributed/fsdp/fully_sharded_data_parallel.py FullyShardedDataParallel.clip_grad_norm_: "
    "grads => reversed(list(grads))": "each is multiplied by the same, in whatever order",
    "torch/distributed/fsdp/_flat_param.py FlatParamHandle._writeback_orig_params: "
    "param_changed or needs_param_writeback => needs_param_writeback": (
        "what has changed needs to be written back, as the line before says"
    ),
    "torch/_functorch/_aot_autograd/utils.py unlift_tokens: bw_module is not None and "
    "num_backward_tokens > 0 => bw_module is not None": (
        "a backward that is given no tokens has none that could be taken out of it"
    ),
    "torch/_functorch/_aot_autograd/autograd_cache.py AOTAutogradCachePickler.reducer_override: "
    "isinstance(obj, torch.Tensor) and type(obj) is not torch.Tensor => isinstance(obj, torch.Tensor)": (
        "what reduces subclasses does with a plain tensor as the table does, to which it would be left"
    ),
    "torch/distributed/tensor/_redistribute.py redistribute_local_tensor: isinstance(current, "
    "_StridedShard) or isinstance(target, _StridedShard) => isinstance(target, _StridedShard)": (
        "what it asserts of these is always so: nothing that has a strided shard is flattened"
    ),
    "torch/distributed/tensor/placement_types.py Replicate.__hash__: 1 => 2": (
        "Python makes -2 of a hash of -1, which stands for an error"
    ),
    "torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py powerSGD_hook: "
    "torch.zeros(total_length, device=device, dtype=dtype) => torch.zeros(total_length, dtype=dtype)": (
        "the error of the step takes its place before it is read"
    ),
    "torch/distributed/tensor/parallel/style.py SequenceParallel._replicate_module_fn: "
    "DTensor.from_local(param, device_mesh, [Replicate()], run_check=False) => "
    "DTensor.from_local(param, device_mesh, [Replicate()])": ("nothing is checked by default either"),
    "torch/distributed/utils.py _data_ptr_allocated: 0 => 1": ("no tensor has the address 1"),
    "torch/distributed/fsdp/_runtime_utils.py _root_pre_forward: len(buffers) > 0 and "
    "len(buffer_dtypes_for_computation) > 0 => len(buffers) > 0": (
        "where there are no types, there is none that a buffer's differs from"
    ),
    "torch/distributed/fsdp/_flat_param.py FlatParamHandle._use_unsharded_grad_views: "
    "chain(self.flat_param._params, self.flat_param._shared_params) => "
    "chain(self.flat_param._shared_params, self.flat_param._params)": (
        "no parameter keeps its gradient, in whatever order they are cleared"
    ),
    "torch/_functorch/_aot_autograd/frontend_utils.py "
    "_detect_attribute_assignment._collect_assigned_tensor_attributes._compare_values: all_keys => "
    "reversed(list(all_keys))": ("the keys are a set's, which has no order"),
    "torch/_functorch/_aot_autograd/graph_compile.py collect_bw_donated_buffer_idxs: fw_ins => "
    "reversed(list(fw_ins))": ("a set is made of the inputs' storages, in whatever order"),
    "torch/_dynamo/compiled_autograd.py AutogradCompilerInstance.to_proxy: t is None => False": (
        "what is no tensor is given as it is further down, and so is None"
    ),
    "torch/_functorch/_aot_autograd/aot_autograd_result.py "
    "GenericAOTAutogradResult._log_cached_graphs: self.aot_forward_graph_str is not None => True": (
        "it decides what a log is told"
    ),
    "torch/distributed/fsdp/_exec_order_utils.py _ExecOrderData._check_order: optional_local_indices "
    "=> reversed(list(optional_local_indices))": (
        "it is counted how many of them there are, in whatever order"
    ),
    "torch/_functorch/_aot_autograd/runtime_wrappers.py _AOTDispatchAutogradFunctionFactory.build: "
    "fw_metadata.num_unsafe_view_outputs > 0 => fw_metadata.num_unsafe_view_outputs >= 0": (
        "where there are none the loop over them has no turn"
    ),
    "torch/distributed/tensor/_ops/_matrix_ops.py "
    "grouped_mm_strategy.valid_grouped_mm_strides.check_valid_strides: max(1, meta.shape[end_dim]) =>"
    " max(meta.shape[end_dim], 1)": ("the larger of two numbers is the same in either order"),
    "torch/_functorch/_aot_autograd/runtime_wrappers.py _AutogradForwardEpilogue.finalize: "
    "num_outputs_aliased > 0 => True": (
        "where no output is an alias the loop over them has no turn, and no base is marked as one"
    ),
    "torch/distributed/utils.py _to_kwargs: range(len(moved_inputs) - len(moved_kwargs)) => "
    "reversed(list(range(len(moved_inputs) - len(moved_kwargs))))": (
        "as many dictionaries are made, in whatever order"
    ),
    "torch/_functorch/_aot_autograd/schemas.py ViewAndMutationMeta.tensors_saved_for_backwards_slice:"
    " raise AssertionError('num_tensors_saved_with_no_vc_check must not be None') => pass": (
        "the slice that is asked for next refuses it in the same words"
    ),
    "torch/distributed/tensor/placement_types.py _StridedShard._select_split_tensor: clone => not clone": (
        "each piece is a new and contiguous tensor already"
    ),
    "torch/_dynamo/compiled_autograd.py AutogradCompilerInstance.begin_capture: "
    "get_chromium_event_logger().log_event_start('compiled_autograd', self.start_time_ns, "
    "{'graph_id': self.id} ... => pass": ("it decides what a log is told"),
    "torch/distributed/fsdp/_flat_param.py FlatParamHandle._get_shard_metadata: unsharded_end_idx - "
    "unsharded_start_idx => unsharded_end_idx + unsharded_start_idx": (
        "what is asserted of it is so in any case: a parameter that is in a shard starts in it or before it"
    ),
    "torch/distributed/tensor/placement_types.py _StridedShard._replicate_to_strided_shard: "
    "self._select_split_tensor(local_tensor, num_chunks, shard_index, with_padding=False, clone=True)"
    " => self._select_split_tensor(local_tensor, num_chunks, shard_index, with_padding=False)": (
        "a clone is made by default, too"
    ),
    "torch/distributed/fsdp/_exec_order_utils.py _ExecOrderData._check_order: (rank + 1) * "
    "num_valid_indices => (rank + 1) // num_valid_indices": (
        "a unit has one handle, so that one index is gathered of each rank"
    ),
    "torch/_functorch/partitioners.py solve_min_cut.is_materialized_backwards: return False => return None": (
        "it is asked for in a condition alone, where None is as good as False"
    ),
    "torch/distributed/tensor/_ops/autogen.py auto_register_op_variants: "
    "_find_out_variant_overloads(base_op) => reversed(list(_find_out_variant_overloads(base_op)))": (
        "each variant is registered by itself, in whatever order"
    ),
    "torch/_functorch/_aot_autograd/runtime_wrappers.py _AutogradBackwardCompiler.get_or_compile: "
    "dynamo_timed('backward._backward_impl', phase_name='entire_backward_compile', "
    "log_pt2_compile_event=True,  ... => dynamo_timed('backward._backward_impl', "
    "log_pt2_compile_event=True, dynamo_compile_column_us='backward_cum ...": (
        "it decides what a log is told of times"
    ),
    "torch/distributed/fsdp/_optim_utils.py _flatten_tensor_optim_state: non_none_tensors => "
    "reversed(list(non_none_tensors))": ("a set is made of their types, in whatever order"),
    "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py foreach_reduce: "
    "getattr(fsdp_param.sharded_param, '_post_accumulate_grad_hooks', {}) => "
    "getattr(fsdp_param.sharded_param, '_post_accumulate_grad_hooks')": ("every tensor has that attribute"),
    "torch/distributed/tensor/_ops/_view_ops.py _ViewShardingPropagator.analyze: in_dims => "
    "reversed(list(in_dims))": ("all are mapped to the same dimension of the result, in whatever order"),
    "torch/distributed/fsdp/_init_utils.py _check_single_device_module: _get_orig_params(module, "
    "ignored_params) => reversed(list(_get_orig_params(module, ignored_params)))": (
        "a set is made of their devices, in whatever order"
    ),
    "torch/distributed/tensor/_shards_wrapper.py LocalShardsWrapper.requires_grad_: "
    "self._local_shards => reversed(list(self._local_shards))": (
        "it is set on each of them, in whatever order"
    ),
    "torch/distributed/tensor/placement_types.py _defer_symbolic_equality_assert: runtime_asserts => "
    "reversed(list(runtime_asserts))": ("it is asked whether any of them is the same, in whatever order"),
    "torch/_functorch/partitioners.py _has_tag_must_be_in_backward: node.meta.get('partitioner_tag', "
    "None) => node.meta.get('partitioner_tag')": ("None is what is had without it, too"),
    "torch/distributed/tensor/_tp_conv.py tp_convolution: op_call(*local_tensor_args, "
    "**local_tensor_kwargs) => op_call(*local_tensor_args)": (
        "the operator has nine arguments, and that all nine are given by place was asked before"
    ),
    "torch/distributed/fsdp/_init_utils.py _check_ignored_states: ignored_states => "
    "reversed(list(ignored_states))": ("it is asked of all states, and the types in the refusal are sorted"),
    "torch/_functorch/_aot_autograd/functional_utils.py MetadataKey.make: t.stride() => "
    "reversed(list(t.stride()))": (
        "keys are compared with each other alone, and all have their strides that way round then"
    ),
    "torch/distributed/tensor/_sharding_prop.py ShardingPropagator.propagate_op_sharding_non_cached: "
    "False => True": ("what is no tensor is in that schema as it was in the call"),
    "torch/_functorch/_aot_autograd/graph_capture.py aot_dispatch_base_graph: "
    "aot_config.keep_inference_input_mutations => aot_config.aot_id": (
        "the function does not use that argument"
    ),
    "torch/_functorch/aot_autograd.py _aot_export_function: fake_mode is not None and "
    "fake_mode.shape_env is not None => fake_mode is not None": (
        "that setting is read only where there is no fake mode"
    ),
    "torch/_functorch/_aot_autograd/utils.py _copy_metadata_to_bw_nodes_in_subgraph: "
    "node.meta.get('is_gradient_acc', False) => node.meta.get('is_gradient_acc')": (
        "none is as false as what is given where it is missing"
    ),
    "torch/_functorch/_aot_autograd/graph_compile.py _log_fw_bw_graphs: aot_config.enable_log => "
    "aot_config.aot_id": ("it decides what a log is told"),
    "torch/_functorch/_aot_autograd/subclass_utils.py remap_unwrapped_subclass_arg_indices: "
    "range(num_indices) => reversed(list(range(num_indices)))": ("the number of the turn is not used"),
    "torch/distributed/fsdp/_shard_utils.py _create_chunk_sharded_tensor: tensor.size() => "
    "reversed(list(tensor.size()))": ("a zero is made for each size, whichever it is"),
    "torch/distributed/fsdp/_init_utils.py _init_inter_node_process_group: range(num_nodes) => "
    "reversed(list(range(num_nodes)))": ("new_group sorts the ranks that it is given"),
    "torch/distributed/tensor/_ops/_tensor_ops.py gen_unbind_strategy: range(input_shape[unbind_dim])"
    " => reversed(list(range(input_shape[unbind_dim])))": (
        "as many results are counted, each of which is described alike"
    ),
    "torch/distributed/fsdp/_flat_param.py FlatParamHandle._reset_flat_param_grad_info_if_needed: "
    "flat_param._params => reversed(list(flat_param._params))": (
        "it is asked whether all gradients are none and whether any is needed, in whatever order"
    ),
    "torch/distributed/fsdp/_flat_param.py FlatParamHandle._init_flat_param_and_metadata: self.rank "
    "== 0 => self.rank != 0": ("it decides which rank tells a log of padding"),
    "torch/_functorch/_aot_autograd/subclass_utils.py "
    "compute_inner_mutated_inp_indices_from_subclass_meta: inner_metadata is not None => True": (
        "the only caller gives it"
    ),
    "torch/_functorch/_aot_autograd/streams.py sync_deallocations: users => reversed(list(users))": (
        "nodes of a graph are ordered, and the last of them is taken"
    ),
    "torch/_functorch/_aot_autograd/runtime_wrappers.py merge_view_inputs: x == -1 => False": (
        "each argument is a base, an alias of one or another argument, and has a place as that"
    ),
    "torch/_functorch/_aot_autograd/schemas.py "
    "ViewAndMutationMeta.tensors_saved_for_backwards_no_vc_check_slice: slice(0, 0) => slice(0)": (
        "slice(0) is empty, too"
    ),
    "torch/_functorch/partitioners.py _has_tag_is_backward: node.meta.get('partitioner_tag', None) =>"
    " node.meta.get('partitioner_tag')": ("a dictionary gives None for what it lacks without being told to"),
    "torch/_functorch/_aot_autograd/streams.py populate_fw_metadata_with_stream_indices: break => pass": (
        "a graph has one output"
    ),
    "torch/_functorch/_aot_autograd/autograd_cache.py _get_custom_estimator_solver_uuids: "
    "callable(solver) and (not isinstance(solver, str)) => callable(solver)": ("no string can be called"),
    "torch/_functorch/partitioners.py solve_min_cut.ban_recomputation_if_allowed: False => True": (
        "no caller asks for what the function returns"
    ),
    "torch/_functorch/partitioners.py choose_saved_values_set.get_saved_values_knapsack: not "
    "dont_ban.issubset(all_recomputable_banned_nodes) => False": (
        "the set that is compared is filled from the other one"
    ),
    "torch/_functorch/aot_autograd.py create_aot_state: x.output_type in (OutputType.alias_of_input, "
    "OutputType.is_input) and x.base_idx is not None and fw_metada ... => x.output_type in "
    "(OutputType.alias_of_input, OutputType.is_input) and fw_metadata.input_info[x.base_idx].r ...": (
        "an output that is an input or an alias of one always has the index of that input"
    ),
    "torch/_functorch/_aot_autograd/graph_capture_wrappers.py "
    "create_functionalized_fn._functionalized_f_helper._post_forward: -1 => 1": (
        "what is noted of an input that is not mutated in the graph is not asked for"
    ),
    "torch/_functorch/_aot_autograd/aot_autograd_result.py "
    "GenericAOTAutogradResult._apply_runtime_wrappers: "
    "CompileEventLogger.try_add_pt2_compile('backend_compile', "
    "requires_subclass_dispatch=req_subclass_dispatch) => pass": ("it decides what a log is told"),
    "torch/_functorch/_aot_autograd/aot_autograd_result.py "
    "GenericAOTAutogradResult._load_and_post_compile: "
    "CompileEventLogger.try_add_pt2_compile('backend_compile', dispatch_mode='inference') => pass": (
        "it decides what a log is told"
    ),
    "torch/_dynamo/backends/distributed.py DDPOptimizer.compile_fn: '.' not in name and len(name) => "
    "'.' not in name": ("it decides what a structured log is told"),
    "torch/_functorch/_aot_autograd/graph_compile.py _compute_indices_of_inps_to_detach: "
    "enumerate(bw_outs_no_rng_no_tokens) => reversed(list(enumerate(bw_outs_no_rng_no_tokens)))": (
        "each input of those that are found is detached, in whatever order"
    ),
    "torch/distributed/fsdp/_shard_utils.py _create_chunk_sharded_tensor: zip(chunk_offsets, "
    "chunk_sizes, placements) => reversed(list(zip(chunk_offsets, chunk_sizes, placements)))": (
        "the sharded tensor puts its shards into the order of their offsets"
    ),
    "torch/distributed/fsdp/fully_sharded_data_parallel.py FullyShardedDataParallel.__getitem__: "
    "hasattr(self, FSDP_WRAPPED_MODULE) => True": ("every instance has a module that it wraps"),
    "torch/distributed/tensor/_ops/_math_ops.py std_var_reduction_strategy: "
    "op_schema.kwargs_schema.get('keepdim', False) => op_schema.kwargs_schema.get('keepdim')": (
        "none is taken for no by all that read it"
    ),
    "torch/distributed/fsdp/_init_utils.py _init_param_handle_from_module: state._ignored_modules => "
    "reversed(list(state._ignored_modules))": ("a set of buffers is made of them"),
    "torch/distributed/fsdp/_fully_shard/_fsdp_param.py FSDPParam._init_sharding_spec_spmd: "
    "range(dp_idx + 1, spmd_mesh.ndim) => reversed(list(range(dp_idx + 1, spmd_mesh.ndim)))": (
        "sizes are multiplied, in whatever order"
    ),
    "torch/distributed/tensor/_ops/utils.py expand_to_full_mesh_op_strategy: partial_kinds => "
    "reversed(list(partial_kinds))": ("sets are made of them"),
    "torch/distributed/fsdp/_common_utils.py _override_module_mixed_precision: "
    "mod.register_forward_hook(forward_post_hook, prepend=False) => "
    "mod.register_forward_hook(forward_post_hook)": ("False is what that is without it, too"),
    "torch/distributed/fsdp/_optim_utils.py _unflatten_optim_state: unflat_param_state => "
    "reversed(list(unflat_param_state))": ("each state is moved by itself, in whatever order"),
    "torch/distributed/tensor/_ops/single_dim_strategy.py _get_unique_placements._update_placements: "
    "obj => reversed(list(obj))": ("what is found is put into a set"),
    "torch/distributed/tensor/_ops/autogen.py _find_out_variant_overloads: "
    "candidate._schema.is_mutable => candidate._schema.arguments": (
        "one that changes nothing has no argument that is an output, and is left out below"
    ),
    "torch/distributed/tensor/_ops/_math_ops.py interp_upsample_1out_1in_strategy: Partial('sum') => "
    "Partial()": ("a partial is a sum without it, too"),
    "torch/distributed/tensor/_ops/_view_ops.py expand: not isinstance(p, InputDim) => False": (
        "padding gives dimensions of the input and single ones alone"
    ),
    "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py _get_param_all_gather_inputs: "
    "zip(foreach_copy_indices, splits) => reversed(list(zip(foreach_copy_indices, splits)))": (
        "each part is put into its own place, in whatever order"
    ),
    "torch/distributed/fsdp/_flat_param.py FlatParamHandle.shard: flat_param._typed_storage()._size()"
    " > 0 => flat_param._typed_storage()._size() >= 0": ("an empty storage stays empty"),
    "torch/_functorch/aot_autograd.py aot_module_simplified: "
    "set_feature_use('aot_autograd_remote_cache', remote) => pass": ("it decides what a log is told"),
    "torch/_functorch/partitioners.py _extract_graph_with_inputs_outputs: x.target is "
    "torch.ops.aten.copy_.default and _must_be_in_backward(x) and (len(x.args) >= 1) and isinstance "
    "... => x.target is torch.ops.aten.copy_.default and _must_be_in_backward(x) and "
    "isinstance(x.args[0], fx.Node) an ...": ("copy_ is always called with what it writes to"),
}
