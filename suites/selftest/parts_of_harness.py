"""The parts of harness and which may import which: the table that test_imports_direction.py holds it to."""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """A part of harness. Its modules may import each other, and what ``uses`` names.

    ``modules`` are modules and packages, without "harness."; a module belongs to the part that names the
    longest beginning of its name. ``uses`` names parts, or a single module where the rest of its part is out
    of bounds.
    """

    name: str
    modules: tuple[str, ...]
    uses: tuple[str, ...]


VALUES = (
    *(
        "outcomes",
        "errors",
        "settings",
        "setting_values",
        "variables",
        "environment",
        "record",
        "field_checks",
        "outcome_json",
        "protocol",
        "wire",
        "tracebacks",
        "communication_call",
        "call_columns",
        "frames",
        "pytest_outcomes",
        "bazel_command",
        "source_digests",
        "conformance_features",
    ),
    "tolerances",  # of dtypes by name
)
TEST_CASE = (
    *("testcase", "comparison", "tensors", "tensor_difference", "parametrization"),
    *("expected_output", "accepted_output", "hypothesis_examples"),
)
LOW = ("values", "process state")
RANK_MODES = ("ranks.processes", "ranks.threads", "ranks.external", "ranks.local", "ranks.hosts")
FOR_RANKS = (*LOW, "system", "communication", "rank_merging")

# The floors from the bottom up: a part may use only what stands above it in this list.
TABLE = (
    Part("values", VALUES, ()),
    Part(
        "process state",
        ("seeding", "releases", "compiler_state", "coverage_hook", "watched_method"),
        ("values",),
    ),
    Part("system", ("system",), ("values",)),
    # Of the system what a test may have replaced when it fails.
    Part("test case", TEST_CASE, (*LOW, "system.originals")),
    Part("communication", ("communication",), (*LOW, "system.after_import")),
    # As low as this, because the text of a failure is a report and is also what a test raises. Of what ranks
    # communicate it shows what belongs together.
    Part("report", ("report",), ("values", "communication.analysis.matching")),
    # Which files tests execute, noted in workers and ranks, and which tests a change can affect.
    Part("impact", ("impact",), ("values", "report.text")),
    # What a project's file says, as values; read by every way into tests.
    Part("configuration", ("configuration",), ("values",)),
    # How the hosts of a run find and know each other, and what they say.
    Part("hosts", ("hosts",), ("values",)),
    # Of the system the limits under which it runs, and how GPUs are counted in what is to be forked.
    Part(
        "requirements",
        ("requirements",),
        ("values", "seeding", "hosts", "system.control_group", "system.accelerators", "system.gpu_count"),
    ),
    # What is tested: values that a plugin writes, read in the runner's processes and in ranks.
    Part("targets", ("targets",), ("values", "releases", "requirements", "configuration")),
    # What tests say that they try, recorded in ranks, and the reports that the runner makes of it.
    Part(
        "conformance",
        ("conformance",),
        ("values", "communication.tensor_values.values", "report", "system", "targets"),
    ),
    # Models for test authors, and for the cases that train them. They move to the device that was found.
    Part("models", ("models",), (*LOW, "requirements")),
    # How the outcomes of ranks become a test's: what they communicated is a part of that.
    Part("rank_merging", ("rank_merging",), ("values", "communication")),
    # What all rank modes share, then the modes, none of which knows another, then the file that chooses.
    Part("ranks", ("ranks",), (*FOR_RANKS, "hosts")),
    # Of targets what each process that imports a test's module imports before it.
    Part(
        "ranks.processes",
        ("ranks.processes",),
        (*FOR_RANKS, "ranks", "targets.plugin", "conformance.cells", "impact"),
    ),
    Part("ranks.threads", ("ranks.threads",), (*FOR_RANKS, "ranks", "conformance.cells")),
    # It prints the text of a failure before it ends a process whose test cannot be interrupted.
    Part("ranks.external", ("ranks.external",), (*FOR_RANKS, "hosts", "ranks", "report.failure")),
    Part("ranks.local", ("ranks.local",), (*FOR_RANKS, "ranks")),
    # The modes of ranks that are processes, on other hosts.
    Part("ranks.hosts", ("ranks.hosts",), (*FOR_RANKS, "hosts", "ranks", "ranks.processes")),
    # Their counterpart on each host.
    Part(
        "agent",
        ("agent",),
        (*FOR_RANKS, "hosts", "requirements", "ranks", "ranks.processes", "ranks.hosts"),
    ),
    Part("ranks.modes", ("ranks.modes",), ("values", "ranks", *RANK_MODES)),
    Part(
        "cases",
        ("cases",),
        (
            *(*FOR_RANKS, "test case", "report.failure", "requirements", "models"),
            *("ranks", *RANK_MODES, "ranks.modes", "conformance.cells", "targets"),
        ),
    ),
    # Libraries for test authors. The fuzzer's programs run in a case's ranks; graphs needs no ranks.
    Part("graphs", ("graphs",), LOW),
    # Of communication what a collective computes.
    Part(
        "fuzzing",
        ("fuzzing",),
        (
            *(*LOW, "test case", "requirements", "targets", "ranks.modes", "ranks.local", "cases"),
            *("communication.tensor_values.reference", "communication.tensor_values.element_types"),
            "graphs",  # traced train steps and functions of views are fuzzed
        ),
    ),
    # Of ranks what it changes: how a result is judged, and which module a rank imports. As pytest and the
    # runner do, it pauses garbage collections while it imports.
    Part(
        "dropin",
        ("dropin",),
        (
            *LOW,
            *("requirements", "ranks.result", "ranks.processes.module_import", "cases"),
            "ranks.processes.leading_imports",
            *("system.garbage", "system.standard_output", "system.fork_safety"),
        ),
    ),
    # Ranks that run, seen from outside.
    Part("look", ("look",), ("values", "communication", "system")),
    # Of ranks their deadlines: a worker's deadline leaves room for them. The zygote prepares what records
    # communication, and imports what ranks were seen to import late, once for all that is forked below it.
    Part(
        "runner",
        ("runner",),
        (
            *(*LOW, "report", "requirements", "system", "ranks.deadlines", "targets", "conformance", "hosts"),
            *(
                "configuration",
                "look",
                "communication.taps.warm_up",
                "impact",
                "ranks.processes.late_imports",
            ),
            "dropin.exit_at_import",
        ),
    ),
    # Hooks of pytest: what a test is comes from the cases, what it takes and which shard it is in from the
    # runner, and the server from which ranks are forked is started before any fixture.
    Part(
        "pytest_plugin",
        ("pytest_plugin",),
        (
            *(
                *LOW,
                "report",
                "runner",
                "ranks.modes",
                "ranks.processes.module_import",
                "ranks.warning_filters",
                "cases.rank_function",
                "cases.ranks_mark",
            ),
            *("system.fork_safety", "system.processors", "system.garbage", "system.runner_settings"),
            "targets",
            "dropin.exit_at_import",
            "configuration",
        ),
    ),
    # A script on ranks takes of the cases how a verdict is told, of the runner its exit codes.
    Part(
        "run",
        ("run",),
        (
            *(*FOR_RANKS, "report.failure", "ranks", "ranks.processes"),
            *("cases.verdict", "runner.exit_codes", "configuration", "look"),
        ),
    ),
    # Reads the directories of runs, and writes one as a run does.
    Part("merge", ("merge",), ("values", "report", "conformance", "impact", "runner")),
    # Tries on ranks, as a script's, what a backend can do, and writes a target.
    Part(
        "target_draft",
        ("target_draft",),
        (*FOR_RANKS, "targets", "ranks", "ranks.processes"),
    ),
    # Rewrites files; knows of the rest by names in its tables. Which modules have to be imported in ranks is
    # the drop-in's decision.
    Part("migrate", ("migrate",), ("values", "system", "dropin.child_code")),
    # run_tests() and load_tests, which a test module calls: they are a way into the runner.
    Part(
        "module_main",
        ("module_main",),
        (*LOW, "test case", "runner", "targets", "configuration", "system.standard_output"),
    ),
    # The package itself, which resolves its public names when they are used, and says what one lacks
    # elsewhere than on Linux.
    Part("harness", ("",), ("errors",)),
)
# This part may import everything where only the type checker reads it.
FOR_THE_TYPE_CHECKER = "harness"

# Imports by import_module that the table does not allow: the importer and what it imports. A drop-in run
# gives torch's cases our ranks before it imports a test's module; other runs do not load dropin.
BY_NAME = {
    ("runner.worker_process.listing", "dropin"),
    ("runner.worker_process.forked_listing", "dropin.before_import"),  # the drop-in's decision, too
    # These two import pytest, which only some modules need.
    ("runner.worker_process.listing", "runner.pytest_modules.pytest_listing"),
    ("runner.worker_process.worker", "runner.pytest_modules.pytest_worker"),
    ("runner.cli", "run.cli"),  # `torch-harness run`, which runs no test
    ("runner.cli", "migrate.cli"),  # `torch-harness migrate`, the same
    ("runner.cli", "conformance.cli"),  # `torch-harness conformance`, the same
    ("runner.cli", "merge.cli"),  # `torch-harness merge`, the same
    ("runner.cli", "target_draft.cli"),  # `torch-harness target`, the same
    ("runner.cli", "look.cli"),  # `torch-harness look`, the same
    ("pytest_plugin.plugin", "dropin"),
    ("pytest_plugin.early_server", "dropin.before_import"),
    ("ranks.processes.module_import", "dropin"),
    ("ranks.processes.preload", "tensors"),  # where a test has imported torch, before ranks are forked
}
# torch keeps its threaded and fake process groups in torch.testing._internal; dropin is about that package.
TORCH_INTERNALS = {
    *("dropin", "ranks.threads.threaded_group", "ranks.threads.torch_groups", "ranks.local.rank"),
    "cases.fake_groups",
}
WITHOUT_TORCH = {
    "values",
    "report",
    "conformance",
    "system",
    "runner",
    "look",
    "run",
    "migrate",
    "merge",
    "pytest_plugin",
    "configuration",
}
