"""The faults that this suite is to notice, and the tests that may pass all the same.

python tools/mutants.py aot
"""

from __future__ import annotations

from suites.aot.faults.entries import ENTRIES
from suites.aot.faults.graphs import GRAPHS
from suites.aot.faults.runtime import RUNTIME
from suites.planting import Mutant, modules_but

MUTANTS: tuple[Mutant, ...] = (*ENTRIES, *GRAPHS, *RUNTIME)
TESTS = modules_but("aot", "calls", "decisions", "wrapper_tables")

#: Tests that look at something else, and why the fault cannot show there.
EXPECT_FAILURE = {
    "*.TangentRefusalsTest.test_*": "the backward is refused",
    "*.FrontEndTest.*": "it expects a front end to complain, which it does before anything is compared",
    "*.CompilerErrorsTest.*": "it expects a faulty compiler to be noticed, and there is one more fault",
}
NO_BACKWARD = {
    "*.test_input_mutation_storage_resize_down*": "what the backward needs is given up on purpose",
    "*.test_mem_leak_from_save_for_bw*": "it looks at what is held after the forward alone",
    "*.test_write_to_leaf": "eager refuses, so that there is nothing to compare",
    "*.test_aot_dispatch_input_metadata_mutation": "the forward is refused",
    "*.test_aot_dispatch_input_data_and_metadata_mutation": "the forward is refused",
    "*.test_output_aliases_input_multi_output_view_should_raise_autograd_error": "the forward's outputs are "
    "refused a write",
    "*.ViewReplayTest.*": "it looks at how autograd was told of views",
    "*.test_meta_tensor_inplace_op": "it looks at what the compiler is told of a graph's tensors",
}
#: Tests of the sweep's own judgement plant faults themselves, and see that there is a difference.
JUDGED = {"*.test_sweep.AgreementTest.test_*": "it plants a fault itself, and any difference will do"}
FLAT = {
    "*_round_*": "its gradient is zero everywhere",
    "*_sgn_*": "its gradient is zero everywhere",
    "*.AutogradCacheTest.test_without_a_backward_nothing_is_saved": "it looks at what the cache holds",
}
AS_EAGER_MODULE = {
    "*.ModuleTest.test_parameters_of_a_class_of_their_own": "what eager does is what it asks for"
}
#: Tests of what users see of versions, saved tensors and layouts, and of parameters of any class.
AS_EAGER = {
    "*.SavedTensorsTest.test_*": "what eager does is what it asks for",
    "*.VersionsTest.test_*": "what eager does is what it asks for",
    "*.DonatedTensorsTest.test_outputs_and_inputs": "what eager does is what it asks for",
    "*.TangentsTest.test_layouts_of_outputs": "what eager does is what it asks for",
    **AS_EAGER_MODULE,
}
#: Tests of what is noted, named or refused, whatever gradients are.
NO_GRADIENTS = {
    "*.SavedTensorsTest.test_an_*": "it looks at what is refused",
    "*.VersionsTest.test_writes_without_gradients": "it looks at versions",
    "*.SignatureTest.test_*": "it looks at names; nothing is computed",
    "*.TangentsTest.test_layouts_of_outputs": "it looks at outputs",
    "*.InputMutationTest.test_written_inputs_are_returned_themselves": "there is no backward",
}
SURVIVORS: dict[str, dict[str, str]] = {
    "cache_never_hits": {"*.ViewReplayTest.test_dynamic_*": "it looks at views, cached or not"},
    "aot_function_is_eager": {**JUDGED, **AS_EAGER},
    "aot_module_is_eager": AS_EAGER_MODULE,
    "aot_module_simplified_is_eager": {**EXPECT_FAILURE, **AS_EAGER},
    "error_is_swallowed": {
        "*.ViewProgramsTest.test_*": "which random programs torch refuses is not asserted",
    },
    "write_in_graph_is_lost": {
        "*.VersionsTest.test_*": "versions are raised outside of the graph",
        "*.test_backward_mutation_on_grad_out": "the partitioner leaves the write to a tangent out anyway",
        "*.ViewProgramsTest.test_shared_arguments_*": "its programs fail as one of the book does, "
        "compiled_view_of_shared_argument",
    },
    "gradient_is_lost": {**EXPECT_FAILURE, **NO_BACKWARD, **NO_GRADIENTS, **JUDGED, **FLAT},
    "gradient_is_doubled": {
        **EXPECT_FAILURE,
        **JUDGED,
        **FLAT,
        **NO_BACKWARD,
        **NO_GRADIENTS,
        "*.test_input_output_view_mutate_multiple": "the first argument is in no output",
    },
    "gradients_are_exchanged": {
        **NO_GRADIENTS,
        "*.test_input_mutation_output_view_multiple": "both arguments are summands, of equal gradients",
        "*_exhaustive_as_strided_scatter_*": "the two of one size have equal gradients in all samples",
        "*_exhaustive_put_*": "of its samples in the standard run none has two of one size with elements",
    },
    "summand_is_lost": {
        **EXPECT_FAILURE,
        **NO_BACKWARD,
        **NO_GRADIENTS,
        **JUDGED,
        "*.VersionsTest.test_writes": "it looks at versions",
        "*.SavedTest.test_smaller_of_two": "it looks at what is saved",
        "*_symbolic_exhaustive_linalg_det_*": "the second part is zero in all samples",
        "*_exhaustive_masked_var_*": "its last sum adds what rounding leaves of zero",
    },
}
