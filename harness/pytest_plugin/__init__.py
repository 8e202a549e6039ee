"""The pytest plugin: tests on ranks with pytest's outcomes, options, shards, slots under pytest-xdist.

pytest finds it by the entry point ``torch_harness`` of the installed package. It has no effect on tests that
do not use the harness, and importing it brings neither torch nor ``harness.cases``. Where to change what:

    plugin             the hooks that pytest calls; all effects on pytest's objects
    options            the command-line options, and the environment variables that they set
    xdist              the hooks for pytest-xdist: its workers' slots, what they tell the controller
    items              what a collected item is: a test of the harness, with ranks, skipped by a mark
    shards             which items belong to a shard, and whether the environment's shard counts
    early_server       when the server that ranks are forked from is started before any fixture
    slots              the budget of slots and accelerators that the workers of pytest-xdist share
    failure_report     what pytest shows of a failed test on ranks: its text, sections and properties
    rank_frames        the frames in which a rank failed, for a debugger in pytest's process
    functions          the hooks for test functions on ranks: @pytest.mark.ranks and the fixture rank_context
    rewritten_asserts  has assert statements tell their values in ranks
    warning_filters    which filters of warnings a test's ranks get
    reproduction       the command that runs one test again under pytest
"""
