"""What ranks say to each other: calls are recorded in each rank, and what they mean together is decided.

A rank writes its calls into shared memory while it runs, so that they can be read where it hangs or is dead.
Whoever judges the test (a supervisor, a worker, rank 0 of external ranks) reads the logs of all ranks and
asks functions of values. Where to change what:

    call_log                how calls are laid out in memory, and log_entries: what is read of that;
                            log_copy: what of a log goes to another host
    history, expected       what a test may ask of its own rank's calls, and what it may demand of them

    taps/                   which functions of torch are wrapped: taps for those of groups, and work_taps,
                            operator_taps, layout_taps, store_taps, rpc_taps; warm_up before ranks are forked
    record/                 in a rank
      arguments             what is read of a call's arguments; signatures: what is noted of it, and
                            reduce_operations; call_keys: no more than it takes to know a call made before
      recorder              numbers, waits and lines of calls, and user_lines, python_threads; usual_calls:
                            calls like earlier ones, in one step; other_calls: what is no call on a group
      known_groups          which group a call is on, and where that was made
      pending_calls         what a rank can see wrong in its own memory, and memory_use
      chaos                 when a rank is delayed
    analysis/               for all ranks, pure
      matching              which calls belong together, and in what they differ
      wait_graph            which ranks can never go on, and rpc_workers: which workers have not come
      explain               the cause line, and call_differences, missing_ranks, unmatched, difference_text
      checks                what is wrong although every rank passed
    tensor_values/          under HARNESS_COMM_CHECK=values
      value_recorder        in a rank: what calls are given and give, and values, element_types
      value_check           what is wrong with it, and expected_values, reference
"""
