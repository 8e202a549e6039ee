"""``run_tests.py``: which tests run, in which worker process, when and for how long. It never imports torch.

Where to change what:

    cli, exit_codes           the command's beginning and end: its sub-commands, its errors, its exit codes
    command                   the steps of a run: find the tests, list them or run them, report
    session, session_setup    the loop of a run, from its first worker to its last record; its fixed inputs
    messages                  what controller, zygote and workers send each other
    over_hosts, other_hosts   a run over several hosts, and whole tests on each
    journal, run_directory, run_files, reporters    what a run writes, and where
    interrupts, look_requests, target_check         Ctrl-C; a person's look at a run; a target's absence

    command_line/     options, the environment and an earlier run, and what they mean together; --help
    selection/        from names to modules to tests, the cache of known tests, shards, what a change affects
    scheduling/       a test as the runner plans with it, batches, expected times, which batch starts next
    workers/          the controller's side of a zygote and of workers: starts, hears, ends them
    worker_process/   what runs in a zygote and in workers: lists a module's tests, runs them, makes records
    pytest_modules/   the same for test modules that pytest has to run
"""
