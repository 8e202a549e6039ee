"""``run``: starts a script on its ranks, waits for their ends, and says how the run ended."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic

from harness import coverage_hook, environment
from harness.cases.verdict import left_behind
from harness.communication.analysis.checks import Finding
from harness.errors import UsageError
from harness.look.on_signal import shown_on_signal
from harness.outcomes import Status, TestOutcome, lost_a_peer
from harness.protocol import Launch
from harness.rank_merging import MergeRules, merge, with_communication
from harness.ranks.job import Job, JobResult
from harness.ranks.processes import module_import
from harness.ranks.processes.mode import FreshRanks
from harness.ranks.value_directory import ValueDirectory
from harness.report.failure import MAX_OUTPUT_LINES, failure_text
from harness.run import script
from harness.run.in_rank import ScriptInRank
from harness.run.master_port import MasterPort
from harness.run.options import Options
from harness.run.torchrun_variables import variables
from harness.runner.exit_codes import ExitCode
from harness.settings import Settings
from harness.system import intra_op_threads

# A script is a program whose exit code is its verdict: one that ends by os._exit(0), to save itself a slow
# shutdown, or that became another program by exec, has not failed. torchrun judges by exit codes, too.
RULES = MergeRules(expected_exit=0)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: its exit code, and what standard error is told ("" for nothing)."""

    code: int
    text: str


def run(options: Options, command: str) -> Ended:
    """Runs the script to its end; ``command`` is the command line, for the report.

    UsageError where nothing can be run, LaunchError where ranks cannot be started, KeyboardInterrupt where
    Ctrl-C comes before they are, or twice.
    """
    path = script.find(options.target, by_name=options.by_name)
    settings = _settings(options)
    with MasterPort(options.master_port) as port:
        values = ValueDirectory(settings.comm_check)
        job = _job(options, settings, path, port.number, values.path)
        started = monotonic()
        ranks = FreshRanks(job)
        try:
            with shown_on_signal(job.test_id):
                result = ranks.join(RULES)
        finally:
            ranks.close()
    if result.server_lost:
        how = ranks.how_the_server_ended()
        return Ended(ExitCode.BROKEN, f"the harness failed: the server that started the ranks died ({how})")
    outcome = replace(verdict(result, values.findings()), duration_s=monotonic() - started)
    shown = 0 if settings.rank_output != "capture" else MAX_OUTPUT_LINES
    return Ended(exit_code(result, outcome), _text(job.test_id, outcome, command, shown))


def _settings(options: Options) -> Settings:
    """The settings of the environment and of the options; deadlines are those of the options alone."""
    settings = environment.settings()
    if settings.pdb_rank is not None and settings.pdb_rank >= options.ranks:
        raise UsageError(f"rank {settings.pdb_rank} is to be debugged, and there are {options.ranks} ranks")
    deadline = math.inf if options.timeout_s is None else options.timeout_s
    return replace(
        settings,
        timeout_s=deadline,
        exit_grace_s=deadline,
        rank_output=options.output or ("stream" if options.ranks > 1 else "raw"),
        log_dir=options.log_dir or settings.log_dir,
    )


def _job(options: Options, settings: Settings, path: Sequence[str], port: int, values: str) -> Job:
    environ = coverage_hook.exported(environment.environment())
    threads = intra_op_threads.of_rank(environ, options.ranks)
    run_id = uuid.uuid4().hex
    of_ranks = [
        variables(rank, options.ranks, port=port, run_id=run_id, threads=threads, environ=environ)
        for rank in range(options.ranks)
    ]
    request = Launch(
        module=module_import.reference(ScriptInRank.__module__),
        qualname=ScriptInRank.__qualname__,
        method="script",
        world_size=options.ranks,
        file_name="",
        environ=environ,
        cwd=module_import.working_directory(),
        sys_path=list(path),
        argv=["-m" if options.by_name else options.target, *options.arguments],
        threads=threads,
        imports=["torch"],
        values=values,
        kwargs={"target": options.target, "by_name": options.by_name, "variables": of_ranks},
    )
    name = options.target if options.by_name else os.path.basename(options.target)
    return Job(ScriptInRank, name, request, settings, settings.timeout_s)


def verdict(result: JobResult, values: Sequence[Finding] = ()) -> TestOutcome:
    """The outcome of a run whose ranks ended like this; ``values`` is what is wrong with those of its calls.

    A rank that left by ``os._exit(0)`` has passed, unless the run failed for no other reason than that some
    rank was gone or did not come: then it is the cause.
    """
    outcome = merge(result.outcomes, RULES)
    cause = next((o for o in outcome.ranks if o.rank == outcome.root_cause), None)
    waited = outcome.status in (Status.TIMED_OUT, Status.DEADLOCKED)
    if result.interrupted or waited or (cause is not None and lost_a_peer(cause.error)):
        outcome = merge(result.outcomes)
    outcome = with_communication(outcome, environment.settings().comm_check or None, values)
    if result.interrupted:
        outcome = replace(outcome, status=Status.ENDED, root_cause=None, reason="interrupted")
    return replace(outcome, warnings=(*left_behind(result), *outcome.communication))


def exit_code(result: JobResult, outcome: TestOutcome) -> ExitCode:
    """The exit code of a run."""
    if result.interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if outcome.status is Status.PASSED else ExitCode.FAILED


def _text(name: str, outcome: TestOutcome, command: str, output_lines: int) -> str:
    if outcome.status is Status.PASSED:
        return "\n".join(f"{name}: warning: {line}" for line in outcome.warnings)
    return failure_text(name, outcome, rerun=command, seed=None, max_output_lines=output_lines)
