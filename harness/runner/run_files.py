"""What is written of a run before its first test: its directory, its journal, and what heads both.

A run whose directory or journal cannot be made goes on without, unless the user named the directory.
"""

from __future__ import annotations

import platform
import socket
import time
from pathlib import Path

from harness import source_digests
from harness.report.base import RunInfo
from harness.runner import journal, run_directory
from harness.runner.command_line.invocation import Invocation
from harness.runner.journal import Journal
from harness.runner.scheduling.plan import Plan
from harness.runner.selection.found_tests import Found
from harness.system.rank_logs import remove_logs


def make_directory(invocation: Invocation) -> tuple[Path | None, tuple[str, ...]]:
    """The directory for this run's files, and messages for the user where there is none.

    UsageError where the user named a directory that cannot be written.
    """
    if invocation.earlier is not None:
        return invocation.earlier.directory, ()
    if invocation.options.report_dir is not None:
        directory = invocation.cwd / invocation.options.report_dir
        run_directory.check_writable(directory)
        return directory, ()
    try:
        return invocation.state.new_run(time.time()), ()
    except OSError as error:
        where = f"{invocation.state.path}: {error.strerror}"
        return None, (f"no journal and no reports are written: {where}; --report-dir names another place",)


def open_journal(invocation: Invocation, info: RunInfo) -> tuple[Journal | None, tuple[str, ...]]:
    """The run's journal with its first line written, None where that fails, and messages about the failure.

    UsageError where another run still writes its journal there.
    """
    directory = info.directory
    if directory is None:
        return None, ()
    try:
        if invocation.earlier is not None:
            record_keeper = Journal(directory / journal.NAME)
            record_keeper.resume(info.argv, info.options, info.environ, info.started_at)
        else:
            record_keeper = journal.create(directory)
            remove_logs(directory / run_directory.LOGS)
            record_keeper.begin(info)
    except OSError as error:
        return None, (f"no journal is written: {directory}: {error.strerror}; results are kept in memory",)
    invocation.state.remember(directory)
    if record_keeper.failure is not None:
        lost = f"the journal cannot be written: {record_keeper.failure}; results are kept in memory"
        return record_keeper, (lost,)
    return record_keeper, ()


def run_info(
    invocation: Invocation, found: Found, directory: Path | None, plan: Plan, resumed: int
) -> RunInfo:
    """What reporters and the journal are told of a run that begins.

    ``directory`` is its own, and ``resumed`` the number of records that it takes over.
    """
    policy, shard = invocation.policy, found.shard
    return RunInfo(
        directory=directory,
        command=invocation.command,
        names=found.names,
        argv=invocation.argv,
        cwd=str(invocation.cwd),
        tests=tuple(unit.id for unit in found.selected.units),
        selection=found.selected.selection or invocation.selection,
        sources=source_digests.of_modules(found.sources),
        options=invocation.given,
        environ=invocation.deciding,
        seed=invocation.settings.seed,
        shuffle=invocation.shuffle,
        shard=(shard.number, shard.total) if shard is not None else invocation.cut,
        jobs=invocation.jobs,
        total=plan.owed,
        repeats=policy.repeats,
        reruns=policy.reruns,
        started_at=time.time(),
        started_s=time.monotonic(),
        hostname=socket.gethostname(),
        python=platform.python_version(),
        torch=found.torch,
        platform=platform.platform(),
        expected_s=found.timings.recorded(u.id for u in found.selected.units),
        resumed=resumed,
    )
