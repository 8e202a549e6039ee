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
    "torch/distributed/tensor/_tp_conv.py tp_convolution_backward: not isinstance(padding, list) => False": (
        "the dispatcher gives every operator a list where its schema says SymInt[]"
    ),
    "torch/distributed/tensor/_shards_wrapper.py LocalShardsWrapper.handle_to_copy: "
    "aten._to_copy.default(shard, *args[1:], **kwargs) => aten._to_copy.default(shard, **kwargs)": (
        "all arguments of that operator but the first have to be named"
    ),
}
