"""Which tests are run again through other front ends, and what is different there (torch 2.11 to 2.13)."""

from __future__ import annotations

from suites.aot import (
    test_alias_kinds,
    test_backward_mutation,
    test_duplicate_arguments,
    test_functions,
    test_input_mutation,
    test_intermediate_aliasing,
    test_modules,
    test_output_aliasing,
    test_synthetic_bases,
)
from suites.aot.known import Known

#: The cases whose tests are.
BASES = (
    test_alias_kinds.AliasKindsTest,
    test_backward_mutation.BackwardMutationTest,
    test_duplicate_arguments.DuplicateArgumentsTest,
    test_functions.FunctionTest,
    test_input_mutation.InputMutationTest,
    test_input_mutation.MetadataMutationTest,
    test_input_mutation.StorageMutationTest,
    test_input_mutation.BufferMutationTest,
    test_intermediate_aliasing.IntermediateAliasingTest,
    test_intermediate_aliasing.OutputsWithoutGradTest,
    test_modules.ModuleTest,
    test_output_aliasing.OutputAliasingTest,
    test_synthetic_bases.SyntheticBasesTest,
)

#: Tests of these that are not, each with its reason.
_ITSELF = "it calls the compiler itself"
STAY: dict[str, str] = dict.fromkeys(
    (
        "test_backward_mutation_forward_inputs_create_graph",
        "test_batchnorm",
        "test_batchnorm_inference",
        "test_inference_mode",
        "test_input_mutation_storage_resize_down",
        "test_input_mutation_storage_resize_down_and_set_",
        "test_mem_leak_from_save_for_bw",
        "test_mem_leak_from_save_for_bw_cuda",
        "test_module",
        "test_parameters_of_a_class_of_their_own",
        "test_written_inputs_are_returned_themselves",
    ),
    _ITSELF,
)

#: Tests whose functions dynamo breaks into several graphs. An operator that makes a view of an argument in
#: place (``t_``, ``set_``) is run between two of them.
_METADATA = "it changes the metadata of an argument"
BREAKS: dict[str, str] = {
    **dict.fromkeys(
        (
            "test_backward_mutation_metadata",
            "test_dupe_arg_torture",
            "test_input_data_and_metadata_mutation",
            "test_input_data_and_metadata_mutation_aliases_other_input",
            "test_input_mutation_alias_everything",
            "test_input_mutation_aliases_bases_out_of_order",
            "test_input_mutation_metadata",
            "test_input_mutation_output_view_multiple",
            "test_input_mutation_set__nop",
            "test_input_output_view_metadata_mutate_multiple",
            "test_output_all_alias_types",
            "test_set__not_allowed",
            "test_subclass_metadata_mutation_req_grad_False",
            "test_subclass_metadata_mutation_req_grad_True",
            "test_view_and_inplace_view",
        ),
        _METADATA,
    ),
    "test_inner_grad": "it calls torch.autograd.grad, which dynamo traces only with trace_autograd_ops",
    "test_set__and_data_mutation_bad": "it makes a tensor with requires_grad=True",
    "test_some_output_requires_grad_input_doesnt": "it returns what it called requires_grad_() on",
}

#: Tests that fail behind dynamo, whatever stands behind that.
KNOWN = (
    Known(
        "test_backward_mutation_metadata",
        "AssertionError",
        "^AssertionError not raised",
        "broken off by dynamo, the backward that mutates metadata is eager's, which allows it",
    ),
    Known(
        "test_input_data_and_metadata_mutation_aliases_other_input"
        " test_subclass_metadata_mutation_req_grad_False test_subclass_metadata_mutation_req_grad_True",
        "AssertionError",
        "^RuntimeError not raised",
        "the operator on metadata that AOTAutograd refuses runs in eager, between two graphs",
    ),
    Known(
        "test_set__and_data_mutation_bad",
        "AssertionError",
        "does not yet handle non-differentiable view input mutations",
        "the tensor made with requires_grad=True comes to the graph as an argument, and after the set_ the"
        " two share memory: another refusal",
    ),
    Known(
        "test_set__not_allowed",
        "AssertionError",
        "does not match .aot_autograd.. does not yet handle non-differentiable view input mutations",
        "the set_ runs in eager, and what is left is refused for another reason",
    ),
)
