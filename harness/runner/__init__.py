"""``run_tests.py``: which tests run, in which worker process, when and for how long. It never imports torch.

Where to change what:

    cli, options, exit_codes              the command line, its options and its exit codes
    invocation                            what options, environment and an earlier run mean together
    command                               the steps of a run: find the tests, list them or run them, report
    selection, collection, discovery      from names to modules to tests, and the cache of known tests
    listing, duplicate_ids, unit          a module's tests, as the runner plans with them
    forked_listing                        the listing of a module that its ranks import themselves
    shard_variables, shard_assignment     which shard this machine runs, and which tests are in it
    timings, time_limits                  how long tests are expected to take, and how long they may take
    batching, scheduling, queue, shuffle  which tests share a worker, and which worker starts next
    work_sharing, warm_up                 when an idle slot takes tests back, and what it would do again
    plan, session                         attempts, reruns and repeats; the loop of a run
    zygote_owner, zygote_process, zygote  the process that imports test modules and forks workers
    zygote_interpreter                    how it is started, before the controller knows what it is to import
    orphans                               the processes that workers leave behind
    over_hosts, other_hosts, shared_capacity, zygote_relay   a run over several hosts, and whole tests on each
    workers, events, messages             the controller's view of workers, and the messages between processes
    worker, unittest_result               what runs in a worker, and how a test's result becomes a record
    controller_records, rank_records      records of tests that did not report themselves, and of ranks
    journal, run_directory, reporters     what a run writes, and where
    capacity, interrupts, output_capture, module_names   the machine, Ctrl-C, captured output, modules' names
"""
