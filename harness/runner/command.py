"""The steps of ``run_tests.py``: finds the tests, then lists them, or runs them with journal and reports."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from harness.hosts.hosts import from_text
from harness.record import TestRecord
from harness.report.summary import Summary, summarise
from harness.runner import exit_codes, run_files
from harness.runner.command_line.invocation import Invocation, resolve
from harness.runner.command_line.shown_configuration import lines_of
from harness.runner.exit_codes import ExitCode
from harness.runner.interrupts import Interrupts
from harness.runner.journal import Journal
from harness.runner.look_requests import Looks, has_terminal
from harness.runner.other_hosts import OtherHosts
from harness.runner.reporters import Reporters, build
from harness.runner.scheduling import capacity
from harness.runner.scheduling import timings as timings_file
from harness.runner.scheduling.plan import Plan
from harness.runner.scheduling.schedule import Capacity
from harness.runner.scheduling.unit import Unit, to_json
from harness.runner.selection import affected_tests, collection, found_tests, further_targets
from harness.runner.selection.applied_overrides import reruns_of
from harness.runner.selection.default_tests import default_names
from harness.runner.selection.found_tests import Found, nothing_code, taken_over, why_nothing
from harness.runner.selection.suites_root import suites_root
from harness.runner.session import Session
from harness.runner.session_setup import Setup
from harness.runner.workers.workers import Workers
from harness.runner.workers.zygote_interpreter import EarlyInterpreter
from harness.runner.workers.zygote_owner import ZygoteOwner
from harness.settings import EnvVar
from harness.system import posix, standard_output
from harness.targets.device_set import DeviceSet


def execute(options: argparse.Namespace, argv: Sequence[str], early: EarlyInterpreter | None = None) -> int:
    """Does what the options say and returns the exit code. Raises UsageError and HarnessError.

    ``early`` is an interpreter that the zygote may take.
    """
    posix.os_threads()  # raises where /proc is missing, which servers and ranks could only say much later
    invocation = resolve(options, argv, dict(os.environ))
    if options.show_config:
        standard_output.write_out("".join(f"{line}\n" for line in lines_of(invocation)))
        return ExitCode.OK
    terminal = 0 if has_terminal(0) and not invocation.streams else None
    with Interrupts() as interrupts, Looks(terminal) as looks:
        return further_targets.run_each(
            invocation, lambda each, modules: _execute(each, interrupts, looks, modules, early)
        )


def _execute(
    invocation: Invocation,
    interrupts: Interrupts,
    looks: Looks,
    modules: set[str],
    early: EarlyInterpreter | None,
) -> int:
    """Lists or runs the tests of an invocation; adds the modules of those that run to ``modules``."""
    options, root = invocation.options, suites_root()
    if invocation.ids == ():
        print("nothing to run: nothing failed in the last run")
        return ExitCode.NOTHING_RAN
    whole = invocation.earlier is not None or invocation.cut is not None
    shard = None if whole else collection.shard_of(options, invocation.environ)
    paths = invocation.configuration.test_paths
    default = () if options.suites else default_names(paths, invocation.cwd, root, sys.argv[0])
    want = collection.wanted(options, root, invocation.cwd, invocation.ids, default)
    first = found_tests.first_paths(invocation, want, root)
    with ZygoteOwner(
        invocation.test_environ,
        sys.path,
        first,
        interrupts.fileno(),
        inherit_streams=invocation.streams,
        early=early,
    ) as zygote_owner:
        found = found_tests.find(invocation, want, shard, zygote_owner)
        if options.list:
            return _list(found, as_json=options.json)
        if not found.selected.units:
            words = why_nothing(found.selected, shard, found.empty_files, options.keywords)
            print(words, file=sys.stderr)
            return nothing_code(found.selected)
        modules.update(unit.module for unit in found.selected.units)
        return _run(invocation, found, zygote_owner, interrupts, looks, first)


# -- listing


def _list(found: Found, *, as_json: bool) -> int:
    """Prints the selected tests, and on standard error the modules that do not import.

    HarnessError where the list cannot be written, BrokenPipeError where nobody reads it.
    """
    selected = found.selected
    units: Iterable[Unit] = found.timings.expect(selected.units)
    lines = (json.dumps(to_json(u), ensure_ascii=False) if as_json else u.id for u in units)
    standard_output.write_out("".join(f"{line}\n" for line in lines))
    for notice in found.notices:
        print(f"note: {notice}", file=sys.stderr)
    bad = [record for record in selected.ready if not record.ok]
    for record in bad:
        print(f"\n{record.details or record.reason}", file=sys.stderr)
    if bad:
        return ExitCode.FAILED
    return ExitCode.OK if selected.units else nothing_code(selected)


# -- running


def _run(
    invocation: Invocation,
    found: Found,
    zygote_owner: ZygoteOwner,
    interrupts: Interrupts,
    looks: Looks,
    paths: Sequence[str],
) -> int:
    """Runs the selected tests, with journal and reports. ``paths`` come first in ``sys.path``."""
    with contextlib.ExitStack() as stack:
        directory, troubles = run_files.make_directory(invocation)
        taken = taken_over(invocation)
        policy = replace(invocation.policy, own=reruns_of(found.rules))
        plan = Plan([u.id for u in found.selected.units], policy, taken)
        info = run_files.run_info(invocation, found, directory, plan, len(taken))
        record_keeper, more = run_files.open_journal(invocation, info)
        if record_keeper is not None:
            stack.enter_context(record_keeper)
        reporters = _reporters(invocation, found, directory)
        reporters.start(info)
        for notice in found.notices:
            reporters.message(notice)
        for trouble in (*troubles, *more):
            reporters.trouble(trouble)
        workers = Workers(interrupts)
        looks.watched_by(workers.watch, workers.unwatch)
        setup = _setup(invocation, found, directory)
        hosts = _other_hosts(invocation, found, setup, paths)
        if hosts is not None:
            stack.enter_context(hosts)
            setup = replace(setup, capacity=hosts.capacity)
        session = Session(setup, plan, zygote_owner, workers, record_keeper, reporters, looks, hosts)
        stack.enter_context(
            interrupts.handled(
                at_once=lambda: _kill_all(workers, zygote_owner, hosts), ignored=lambda: session.debugging
            )
        )
        stack.enter_context(workers)
        return _drive(invocation, found, session, taken, reporters, record_keeper, interrupts, directory)


def _other_hosts(
    invocation: Invocation, found: Found, setup: Setup, paths: Sequence[str]
) -> OtherHosts | None:
    """The other hosts of the run, for whole tests; None on one host, and where tests have this terminal."""
    text = invocation.environ.get(EnvVar.HOSTS)
    if not text or invocation.streams:
        return None
    hosts = from_text(text)
    assert isinstance(setup.capacity, Capacity)
    offered = capacity.shared(
        hosts,
        invocation.options.jobs,
        setup.capacity,
        spread=invocation.settings.placement == "spread",
    )
    return OtherHosts(hosts, offered, invocation.test_environ, sys.path, paths, setup.devices, found.target)


def _reporters(invocation: Invocation, found: Found, directory: Path | None) -> Reporters:
    options = invocation.options
    return build(
        sys.stdout,
        invocation.environ,
        directory,
        verbosity=options.verbose - options.quiet,
        durations=options.durations,
        shared_terminal=invocation.streams,
        html="html" in options.report,
        conformance=(found.target, found.left_out) if "conformance" in options.report else None,
        trace=options.trace,
        color=options.color,
    )


def _drive(
    invocation: Invocation,
    found: Found,
    session: Session,
    taken: list[TestRecord],
    reporters: Reporters,
    record_keeper: Journal | None,
    interrupts: Interrupts,
    directory: Path | None,
) -> int:
    """Runs the session and writes the reports, also where the session itself raises."""
    began_s = time.monotonic()
    broken = True

    def asked_to_end() -> bool:
        return interrupts.count > 0 or invocation.is_over(time.monotonic())

    try:
        session.run(found.selected.ready, asked_to_end)
        broken = bool(_lost(invocation, found))
    finally:
        summary = _summary(invocation, found, session, [*taken, *session.records], reporters, began_s, broken)
        reporters.finish(summary)
        if record_keeper is not None:
            record_keeper.end(summary.exit_code, time.time(), summary.messages)
        timings_file.keep(invocation.state.timings, session.records, found.there)
        affected_tests.keep(invocation, directory, session.records, found.there)
    return _exit_code(invocation, session, summary, reporters, broken)


def _lost(invocation: Invocation, found: Found) -> tuple[str, ...]:
    """The tests that a resumed run still has to run and that are gone.

    With ``--last-failed`` a missing test does not count: the user may have removed it because it failed.
    """
    return found.selected.gone if invocation.earlier is not None else ()


def _summary(
    invocation: Invocation,
    found: Found,
    session: Session,
    records: Sequence[TestRecord],
    reporters: Reporters,
    began_s: float,
    broken: bool,
) -> Summary:
    def with_code(code: int) -> Summary:
        return summarise(
            records,
            exit_code=code,
            interrupted=session.interrupted,
            duration_s=time.monotonic() - began_s,
            selected=[*(unit.id for unit in found.selected.units), *_lost(invocation, found)],
            command=invocation.command,
            names=found.names,
            messages=reporters.messages,
        )

    return with_code(_exit_code(invocation, session, with_code(0), reporters, broken))


def _exit_code(
    invocation: Invocation, session: Session, summary: Summary, reporters: Reporters, broken: bool
) -> int:
    return exit_codes.decide(
        ran=len(summary.tests),
        failed=summary.failed,
        flaky=len(summary.flaky),
        flaky_fails=invocation.options.flaky == "fail",
        interrupted=session.interrupted,
        broken=broken or bool(reporters.failures) or bool(summary.not_run),
    )


def _setup(invocation: Invocation, found: Found, directory: Path | None) -> Setup:
    options = invocation.fork_options(directory)
    noted = affected_tests.recording(invocation, directory)
    return Setup(
        units={unit.id: unit for unit in found.selected.units},
        timings=found.timings,
        capacity=capacity.capacity(
            invocation.jobs, invocation.environ, invocation.group_limits, found.devices
        ),
        devices=found.devices or DeviceSet(),
        limits=invocation.limits,
        options=replace(options, environ={**options.environ, **noted}),
        known=found.known,
        isolate=invocation.options.isolate,
        seed=invocation.settings.seed,
        chaos=invocation.settings.chaos,
        shuffle=invocation.shuffle,
        rules=found.rules,
        today=datetime.date.today(),
    )


def _kill_all(workers: Workers, zygote_owner: ZygoteOwner, hosts: OtherHosts | None) -> None:
    """Kills every process that the run started, at once, for the second Ctrl-C."""
    groups = [*workers.pids, *([zygote_owner.pid] if zygote_owner.pid is not None else [])]
    groups += hosts.pids if hosts is not None else ()
    for pid in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            os.killpg(pid, signal.SIGKILL)
    if sys.stdout.isatty():
        os.write(1, b"\x1b[?25h\n")  # the live console hides the cursor
