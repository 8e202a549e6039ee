"""Makes the records of tests that did not report themselves: crashed, timed out, ended or not imported."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.outcomes import Status, exit_text
from harness.record import TestRecord
from harness.runner.scheduling.unit import Unit
from harness.runner.workers.worker_state import Cause, Worker
from harness.settings import MORE_TIME
from harness.system.server_process import STOPPED

# A frame of unittest's or pytest's that calls the test or its fixture, or a frame of the worker's code.
_OUR_FRAME = re.compile(
    r'  File ".*(/unittest/(case|async_case|suite)\.py|/_pytest/(python|unittest|fixtures|runner)\.py'
    r'|/harness/runner/\w+\.py)", line '
)
_NOT_FOUND = re.compile(r"ModuleNotFoundError: No module named '(\w+)'")


def cut_short(unit: Unit, worker: Worker, output: str, limit_s: float | None) -> TestRecord:
    """The record of the test that was running when its worker ended.

    ``limit_s`` is the time limit of the test; None where it had none. What the test itself reported too late
    changes neither status nor reason, but its ranks, its sub-tests and its details are kept.
    """
    now = time.monotonic()
    lasted = max(0.0, now - worker.began_s)
    status, reason = _verdict(worker, lasted, limit_s)
    details = reason
    if status is Status.TIMED_OUT and worker.too_late is None:  # else its own report says it
        details += f"\nhint: {MORE_TIME}"
    if worker.stack_text:
        details += f"\n\nStacks of the test's process:\n{trimmed(worker.stack_text)}"
    own = TestRecord(
        id=unit.id,
        status=status,
        duration_s=lasted,
        started_at=time.time() - lasted,
        started_s=worker.began_s,
        worker=worker.label,
        world_size=unit.demand.ranks if unit.demand.ranks > 1 else None,
        reason=reason,
        details=details,
        output=output,
        file=unit.file,
        line=unit.line,
        extra={"exit_code": worker.code, "peak_memory": worker.peak_memory},
    )
    return own if worker.too_late is None else _with_report(own, worker.too_late)


def _with_report(own: TestRecord, report: TestRecord) -> TestRecord:
    """The record with what the test reported too late: what each of its ranks was doing, say."""
    said = f"Its own report came too late: {report.status.value}\n{report.details}".rstrip()
    kept = own.status is Status.ENDED and report.details
    return replace(
        own,
        mode=report.mode,
        warnings=report.warnings,
        ranks=report.ranks,
        subtests=report.subtests,
        subtests_run=report.subtests_run,
        details=report.details if kept else f"{own.details}\n\n{said}",
    )


def _verdict(worker: Worker, lasted: float, limit_s: float | None) -> tuple[Status, str]:
    if worker.cause is Cause.TIMEOUT:
        why = f"; its process was {STOPPED}" if worker.stopped else ""
        return Status.TIMED_OUT, f"timed out: no end after {limit_s:.0f} s{why}" if limit_s else "timed out"
    if worker.cause is Cause.STOPPED:
        return Status.ENDED, f"ended after {lasted:.1f} s, because the run was stopped"
    if worker.cause is Cause.HOST:
        return Status.ERROR, worker.host_lost
    if worker.cause is Cause.ZYGOTE:
        return Status.ERROR, "the process that forks workers died while this test ran, more than once"
    if worker.cause is Cause.GARBLED:
        return Status.ERROR, f"the test's process wrote to a descriptor of the runner's: {worker.garbled}"
    why = f" ({worker.killed})" if worker.killed else ""
    return (
        Status.CRASHED,
        f"crashed: the test's process ended with {exit_text(worker.code)} without an outcome{why}",
    )


def trimmed(stacks: str) -> str:
    """``faulthandler``'s text without the frames of unittest, pytest and worker that are below a test."""
    lines: list[str] = []
    ours = False
    for line in stacks.splitlines():
        is_frame = line.startswith("  File ")
        ours = is_frame and (ours or _OUR_FRAME.match(line) is not None)
        if not ours:
            lines.append(line)
    return "\n".join(lines)


def never_began(unit: Unit, worker: Worker, output: str) -> TestRecord:
    """The record of the first test of a worker that ended before any of its tests began."""
    why = f", because it was {STOPPED}," if worker.stopped else ""
    reason = f"its worker ended with {exit_text(worker.code)}{why} before the test began"
    details = f"{reason}\n{output}\n{worker.stack_text}".rstrip()
    return TestRecord(
        unit.id,
        Status.ERROR,
        started_at=time.time(),
        started_s=time.monotonic(),
        reason=reason,
        details=details,
    )


def broken_module(unit: Unit, error: str, source: Path | None = None) -> TestRecord:
    """The record of a module that does not import, under its name; ``source`` is the module's file."""
    last = error.strip().rsplit("\n", 1)[-1]
    hint = _beside(last, source)
    details = f"{unit.module} does not import:\n{error}"
    if hint:
        details += f"\nhint: {hint}"
    return _of_module(unit, Status.ERROR, f"does not import: {last}{f'; {hint}' if hint else ''}", details)


def _beside(last: str, source: Path | None) -> str:
    """What to do where a module was not found that stands beside the file; "" where that is not the error.

    Python finds it there where the file is run as a script, but not where it is a module of a package.
    """
    missing = _NOT_FOUND.fullmatch(last)
    if missing is None or source is None:
        return ""
    name = missing[1]
    there = [each for each in (f"{name}.py", f"{name}/__init__.py") if (source.parent / each).is_file()]
    directory = shlex.quote(str(source.parent))
    return f"{there[0]} is beside it, in a package: run with PYTHONPATH={directory}" if there else ""


def refused_module(unit: Unit, refusal: str, path: str) -> TestRecord:
    """The record of a module that pytest would have to run and cannot; ``path`` is the module's file."""
    reason = refusal.split("\n", 1)[0]
    return _of_module(unit, Status.ERROR, reason, f"{refusal}\nby pytest alone: python -m pytest {path}")


def skipped_module(unit: Unit, reason: str) -> TestRecord:
    """The record of a module that raised SkipTest while it was imported."""
    return _of_module(unit, Status.SKIPPED, reason, "")


def duplicate(unit: Unit, modules: Sequence[str]) -> TestRecord:
    """The record of an id that several tests of these modules share; the tests cannot be told apart."""
    reason = f"several tests of {' and '.join(modules)} have this id; give each a name of its own"
    return _of_module(unit, Status.ERROR, reason, reason)


def _of_module(unit: Unit, status: Status, reason: str, details: str) -> TestRecord:
    return TestRecord(
        unit.id,
        status,
        started_at=time.time(),
        started_s=time.monotonic(),
        reason=reason,
        details=details,
        file=unit.file,
    )
