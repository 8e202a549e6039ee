"""Tests that pass under a fault that they execute, by mutant, each with the reason."""

from __future__ import annotations

ALONE = "each layer fills a bucket of its own, whatever the caps"
NOT_COUNTED = "what does not count fills no bucket"
REFUSED = "the step is refused"
ELSEWHERE = "it looks at buffers, wherever the graph is split"
RESULTS = "it looks at results, wherever the graph is split"

SURVIVORS: dict[str, dict[str, str]] = {
    "compile_is_a_noop": {
        "*.test_compiled_autograd_and_the_reducer_in_cpp": REFUSED,
        "*.test_empty_graph_inductor": "there is nothing in the graph",
    },
    "outputs_times_3": {
        "*.test_compiled_autograd_and_the_reducer_in_cpp": REFUSED,
    },
    "never_splits": {
        "*.TestKnownDeviations.test_parameters_*_do_not_count": NOT_COUNTED,
        "*.test_compiled_autograd_and_the_reducer_in_cpp": REFUSED,
    },
    "always_splits": {
        "*.TestKnownDeviations.test_parameters_in_lists_do_not_count": NOT_COUNTED,
        "*.test_compiled_autograd_and_the_reducer_in_cpp": REFUSED,
        "*.test_graph_split_inductor_transpose": ALONE,
    },
    "broadcast_from_wrong_source": {"*.test_compiled_autograd_and_the_reducer_in_cpp": REFUSED},
    "first_cap_forgotten": {
        "*.test_graph_split_ctx_manager": ALONE,
        "*.test_graph_split_inductor_transpose": ALONE,
    },
    "cap_is_exceeded_only": {"*.test_selective_activation_checkpoint": ALONE},
    "elements_for_bytes": {
        "*.test_buffers_are_broadcast": ELSEWHERE,
        "*.test_compiled_flex_attention_full_model_ddp": RESULTS,
        "*.test_graph_split_inductor_transpose": ALONE,
    },
    "all_parameters_ignored": {
        "*.test_compiled_autograd_and_the_reducer_in_cpp": REFUSED,
        "*.test_buffers_are_broadcast": ELSEWHERE,
        "*.test_compiled_flex_attention_full_model_ddp": RESULTS,
    },
}
