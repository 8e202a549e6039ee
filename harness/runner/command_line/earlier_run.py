"""Which earlier run a command goes on with or runs the failures of again, and what it takes from that."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.outcomes import Status
from harness.report.base import RunInfo
from harness.report.summary import summarise
from harness.runner import journal, run_directory
from harness.runner.command_line.option_values import wrong_option
from harness.runner.journal import EarlierRun
from harness.runner.run_directory import StateDirectory
from harness.runner.selection.collection import shard_of
from harness.runner.selection.shard_variables import Shard

# Options that decide whether a test fails, which ``--last-failed`` takes over. Others, such as where the
# run's files go, are not taken over.
CONDITIONS = (
    *("drop_in", "slow", "ranks", "strict", "examples", "chaos"),
    *("timeout", "timeout_multiplier", "seed", "isolate"),
    *("backend", "device", "plugin", "config", "no_config", "profile"),
)
# Slurm counts in it how often it has started the job again.
RESTART_COUNT = "SLURM_RESTART_COUNT"


def to_go_on_with(
    options: argparse.Namespace, argv: Sequence[str], environ: Mapping[str, str], cwd: Path
) -> EarlierRun | None:
    """The run that this command goes on with in the working directory ``cwd``; None where it begins one."""
    if options.report_dir is not None and not options.resume:
        asked = options.resume is not None
        return (
            _begun_there(cwd / options.report_dir, options, argv, environ)
            if asked or requeued(environ)
            else None
        )
    if options.resume is None:
        return None
    directory = cwd / options.resume if options.resume else run_directory.state(environ, cwd).latest()
    if directory is None:
        raise UsageError("--resume: no earlier run is known here; name its directory: --resume=DIR")
    return _read(directory)


def _begun_there(
    directory: Path, options: argparse.Namespace, argv: Sequence[str], environ: Mapping[str, str]
) -> EarlierRun | None:
    """What the same command has begun in its ``--report-dir``; None where it begins now.

    UsageError where ``--resume`` asks for it, and another command has begun there. In a job that Slurm has
    started again, such a run is replaced, as ever, and so is one that has ended.
    """
    if not journal.begun(directory):
        return None
    earlier = _read(directory)
    same = same_run(earlier.info, argv, shard_of(options, environ))
    if options.resume is None:
        return earlier if same and not earlier.finished else None
    if not same:
        raise UsageError(f"--resume: {directory} holds another run: {earlier.info.started_as}")
    return earlier


def _read(directory: Path) -> EarlierRun:
    with journal.idle(directory) as idle:
        if not idle:
            raise UsageError(f"--resume: the run in {directory} is still going; wait until it has ended")
        return journal.read(directory.resolve())


def requeued(environ: Mapping[str, str]) -> bool:
    """True in a job that Slurm has started again, after a node failed or a job of higher priority took it."""
    count = environ.get(RESTART_COUNT, "")
    return count.isascii() and count.isdigit() and int(count) > 0


def same_run(info: RunInfo, argv: Sequence[str], shard: Shard | None) -> bool:
    """Whether a run was begun by this command line, with or without ``--resume``, and as this shard."""
    number = (shard.number, shard.total) if shard is not None else None
    words = [[word for word in each if word != "--resume"] for each in (info.argv, argv)]
    return words[0] == words[1] and info.shard == number


def last(state: StateDirectory, asker: str) -> EarlierRun:
    """The last run that the state directory knows of. UsageError, which names ``asker``, without one."""
    directory = state.latest()
    if directory is None:
        raise UsageError(f"{asker}: no earlier run is known here")
    return journal.read(directory)


def check_possible(before: Mapping[str, Any]) -> None:
    """UsageError where the journal of the last run has an option that no command line gives that value."""
    wrong = wrong_option(before)
    if wrong is not None:
        raise UsageError(f"the journal of the last run holds no possible {wrong}; start the run anew")


def failed(run: EarlierRun) -> tuple[str, ...]:
    """The ids of the tests that failed in a run."""
    finished = (record for record in run.records if record.status is not Status.ENDED)
    return summarise(finished).failed_ids


def cut_of(options: argparse.Namespace, last: RunInfo) -> tuple[int, int] | None:
    """The shard of the last run, all failures of which run here. UsageError together with ``--shard``."""
    if last.shard is not None and options.shard is not None:
        raise UsageError(
            f"--last-failed: the last run was shard {last.shard_text} already: leave out --shard"
        )
    return last.shard


def go_to(directory: Path) -> None:
    """Changes to an earlier run's working directory. UsageError where that is impossible."""
    try:
        os.chdir(directory)
    except OSError as error:
        raise UsageError(f"--resume: that run's working directory {directory}: {error.strerror}") from None
    except ValueError as error:  # a NUL, or characters that no name of a file has
        raise UsageError(f"--resume: the journal names no working directory: {error}") from None
