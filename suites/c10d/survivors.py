"""Tests that pass under a fault that they execute, by mutant, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

#: What DDP logs, or its buffers, are looked at; the gradients of the step before are not.
LOOKS_ASIDE = {
    "*.LoggingTest.test_*": "it looks at what DDP logs, whatever the gradients",
    "*.LaterBuffersTest.test_*": "it looks at buffers, whatever the gradients",
}
#: The same of steps in which DDP's own Python runs and nothing is reduced.
LOOKS_ELSEWHERE = {
    **LOOKS_ASIDE,
    "*.BufferHookTest.test_ddp_buffer_hook_*": "it looks at buffers, whatever the gradients",
    "*.DdpStateTest.test_forward_*": "it looks at buffers; no backward follows",
    "*.MixedPrecisionTest.test_ddp_native_mixed_precision_needs_events": "the step is refused",
    "*.test_unused_parameters_are_refused_at_the_next_forward": "the step is refused",
    "*.test_ddp_checkpointing_twice_use_reentrant_True": "the step is refused",
    "*.SyncBatchNormOnCpuTest.test_*refuse*": "the step is refused",
}
#: It looks at dtypes when DDP is made; no step follows, and all ranks begin alike.
DTYPES = {"*.MixedPrecisionTest.test_buffers_are_cast_unless_they_are_ignored": "it looks at dtypes alone"}
SYMMETRIC = "what all ranks have is the same, or the order of ranks does not matter to it"
NO_DATA = "it looks at what is refused or warned of; no rank waits for another one's data"
LAST_STATE = "the maximum says whose state is the last; all are the same"
NOTHING_MOVES = "its group moves nothing"
#: Fails where a rank is late enough, which on a busy machine it need not be.
RACE = "a race: nobody is late there"
HARNESS_ASKS = "only the harness asks, for its own notes, after a wait in vain"
SHARDED = "a sharded tensor is there to be ignored; nothing is asked of it"

SURVIVORS: Mapping[str, Mapping[str, str]] = {
    "all_reduce_is_identity": LOOKS_ASIDE,
    "all_reduce_averages": {
        **LOOKS_ASIDE,
        "*.DdpJoinTest.test_join_ends_with_the_last_ones_state": "it looks at the state, not at gradients",
    },
    "all_reduce_drops_a_part": LOOKS_ASIDE,
    "all_reduce_sums_whatever": {
        "*.DdpJoinTest.test_join_divides_*": LAST_STATE,
        "*.DdpJoinTest.test_join_of_batches_*": LAST_STATE,
        "*.LaterStepsTest.test_join_that_is_off": LAST_STATE,
    },
    "broadcast_from_wrong_source": {
        **DTYPES,
        "*.DdpConstructionTest.test_*": NOTHING_MOVES,
        "*.IgnoredTest.test_ignored_sharded_tensor": SHARDED,
        "*.SyncBatchNormOnCpuTest.test_ddp_refuses_sync_batch_norm_on_cpu": "the step is refused",
    },
    "all_gather_permutes": {
        "*.IgnoredTest.test_ignored_sharded_tensor": SHARDED,
        "*.SyncBatchNormTest.test_sync_batch_norm_*": SYMMETRIC,
        "*.test_dtypes_that_gloo_does_not_have": NO_DATA,
        "*.test_output_list_too_short": "it looks at the error that Python raises afterwards",
    },
    "all_to_all_single_reverses": {
        "*.RefusalsWorldSize?Test.test_all_to_all_single_splits": "the call is refused when it is waited for",
        "*.test_all_to_all_single_of_bytes_that_cannot_be_cut": "the call is refused when it is waited for",
    },
    "barrier_does_not_wait": {
        "*.test_many_in_flight_of_each_kind": "the barrier is one of many calls, and orders nothing",
        "*.test_fuzzing.*.test_random_programs": "what a barrier orders is seen in no tensor",
        "*.test_gloo_warn_not_in_group": "members only call it; it looks at those outside",
        "*.StateTest.test_save_load_checkpoint": "a race between a file and those that read it",
        "*.test_without_its_wait_*": "the barrier only holds the ranks until all is over",
    },
    "wait_is_a_no_op": {
        "*Refusals*Test.test_*": NO_DATA,
        "*.Outsiders*Test.test_*": NO_DATA,
        "*.test_outsiders_are_warned_*": NO_DATA,
        "*.test_gloo_warn_not_in_group": NO_DATA,
        "*.RootsWorldSize2Test.test_*": "the group has one rank",
        "*DispatchedCollectivesTests.test_*": "the group has one rank",
        "*.test_without_its_wait_*": "it takes the wait away itself",
        "*CommTest.test_bool_tensors": RACE,
        "*CommTest.test_new_group_local_sync*": RACE,
        "*.GappedViewsWorldSize?Test.test_*": RACE,
        "*.JoinTest.test_told_to_end_where_all_are_done": RACE,
        "*.PostLocalSGDTest.test_*": RACE,
        "*.SyncBatchNormTest.test_sync_batch_norm_of_all_rows": RACE,
        "*.StateTest.test_save_load_checkpoint": "a race between a file and those that read it",
    },
    "work_is_always_completed": {
        "*.test_wait_timeout": HARNESS_ASKS,
        "*.test_fuzzing.*.test_random_programs": HARNESS_ASKS,
    },
    "group_rank_is_global": {"*.test_root_outside_of_the_group": NO_DATA},
    "all_gather_object_swaps": {
        "*.IgnoredTest.test_ignored_sharded_tensor": SHARDED,
        "*.SharedWithRpcTest.test_*": "RPC looks whether names are told twice; their order does not matter",
    },
    "global_rank_is_the_groups": {
        "*.test_send_recv_group_ranks": "peers are group ranks; the global one only must not be the own",
        "*.AskedOfBackendsTest.test_messages*": "peers are group ranks, as above",
        "*.test_fuzzing.*.test_random_programs": "peers are group ranks, as above",
    },
    "group_ranks_are_reversed": {
        "*.IgnoredTest.test_ignored_sharded_tensor": SHARDED,
        "*.test_profiling.*": "the profiler asks, for a note in its trace",
    },
    "new_group_loses_a_rank": {"*.test_root_named_twice_or_not_at_all": "it uses another group"},
    "store_does_not_wait": {
        "*.test_open_world_size": RACE,
        "*.InitMethodsTest.test_a_rank_that_never_comes": "the wait keeps the ranks together at its end",
    },
    "ddp_skips_its_gradient_hooks": LOOKS_ELSEWHERE,
    "ddp_does_not_average": {
        **LOOKS_ELSEWHERE,
        "*.DdpJoinTest.test_join_ends_with_the_last_ones_state": "it looks at the state, not at gradients",
    },
    "ddp_starts_with_other_states": {
        "*.DdpConstructionTest.test_*": NOTHING_MOVES,
        **DTYPES,
        "*.IgnoredTest.test_ignored_sharded_tensor": SHARDED,
        "*.SyncBatchNormOnCpuTest.test_ddp_refuses_sync_batch_norm_on_cpu": "the step is refused",
    },
    "ddp_keeps_buffers": {
        "*.IgnoredTest.test_ignored_output_with_unused_parameters": SYMMETRIC,
        "*.SyncBatchNormTest.test_sync_batch_norm_*": SYMMETRIC,
        "*.SyncBatchNormTest.test_batch_norm_without_sync": "running statistics enter no step of training",
        "*.SyncBatchNormOnCpuTest.test_*refuse*": "the step is refused",
    },
    "ddp_ignores_comm_hooks": {
        **DTYPES,
        "*.test_ddp_native_mixed_precision_needs_events": "the step is refused",
    },
    "no_sync_synchronizes": {"*.test_no_sync_left_by_an_exception": "no backward runs in it"},
    "ddp_join_divides_wrongly": {
        "*.test_join_that_is_off": "nothing is divided where it is off",
        "*.DdpJoinTest.test_join_ends_with_the_last_ones_state": "it looks at the state, not at gradients",
    },
}
