"""The steps of ``run_tests.py``: finds the tests, then lists them, or runs them with journal and reports."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness import source_digests
from harness.configuration.override import Rule
from harness.conformance.known import stale
from harness.hosts.hosts import from_text
from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.base import RunInfo
from harness.report.summary import Summary, summarise
from harness.report.text import count
from harness.runner import (
    capacity,
    collection,
    discovery,
    earlier_run,
    exit_codes,
    further_targets,
    journal,
    run_directory,
)
from harness.runner import timings as timings_file
from harness.runner.collection import Selected
from harness.runner.default_tests import default_names
from harness.runner.exit_codes import ExitCode
from harness.runner.interrupts import Interrupts
from harness.runner.invocation import Invocation, resolve
from harness.runner.journal import Journal
from harness.runner.looks import Looks, has_terminal
from harness.runner.other_hosts import OtherHosts
from harness.runner.plan import Plan
from harness.runner.reporters import Reporters, build
from harness.runner.rules import applied, reruns_of, rules_of
from harness.runner.rules import notices as rule_notices
from harness.runner.scheduling import Capacity
from harness.runner.session import Session, Setup
from harness.runner.shard_variables import Shard
from harness.runner.shown_configuration import lines_of
from harness.runner.suites_root import suites_root
from harness.runner.timings import Timings
from harness.runner.unit import Unit, to_json
from harness.runner.workers import Workers
from harness.runner.zygote_owner import ZygoteOwner
from harness.settings import EnvVar
from harness.system import posix, standard_output
from harness.system.rank_logs import remove_logs
from harness.targets.builtin import DEFAULT
from harness.targets.device_set import DeviceSet
from harness.targets.known import Known


def execute(options: argparse.Namespace, argv: Sequence[str]) -> int:
    """Does what the options say and returns the exit code. Raises UsageError and HarnessError."""
    posix.os_threads()  # raises where /proc is missing, which servers and ranks could only say much later
    invocation = resolve(options, argv, dict(os.environ))
    if options.show_config:
        standard_output.write_out("".join(f"{line}\n" for line in lines_of(invocation)))
        return ExitCode.OK
    terminal = 0 if has_terminal(0) and not invocation.streams else None
    with Interrupts() as interrupts, Looks(terminal) as looks:
        return further_targets.run_each(
            invocation, lambda each, modules: _execute(each, interrupts, looks, modules)
        )


@dataclass(frozen=True, slots=True)
class Found:
    """The tests of a run and what is known about them.

    ``notices`` are shown when there are reporters to show them; ``names`` is as in ``RunInfo``. ``sources``
    maps the test modules to their files. ``target`` is the name of the target that is tested, ``known`` its
    known failures, ``devices`` its accelerators (None: it has none but the CPU), and ``rules`` what the
    configuration says of tests. ``there`` has the ids of all tests of the modules that were imported,
    selected or not.
    """

    selected: Selected
    names: Mapping[str, str]
    timings: Timings
    shard: Shard | None
    torch: str | None
    notices: tuple[str, ...]
    sources: Mapping[str, Path]
    target: str
    known: tuple[Known, ...]
    devices: DeviceSet | None
    rules: Mapping[str, Rule]
    there: Mapping[str, frozenset[str]]


def _execute(invocation: Invocation, interrupts: Interrupts, looks: Looks, modules: set[str]) -> int:
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
    first = _paths(invocation, want, root)
    with ZygoteOwner(
        invocation.test_environ,
        sys.path,
        first,
        interrupts.fileno(),
        inherit_streams=invocation.streams,
    ) as zygote_owner:
        found = _find(invocation, want, shard, zygote_owner)
        if options.list:
            return _list(found, as_json=options.json)
        if not found.selected.units:
            print(_why_nothing(found, shard), file=sys.stderr)
            return _nothing(found)
        modules.update(unit.module for unit in found.selected.units)
        return _run(invocation, found, zygote_owner, interrupts, looks, first)


def _paths(invocation: Invocation, want: collection.Wanted, root: Path) -> list[str]:
    """The first entries of ``sys.path``; a plugin may be in the working directory or beside the file."""
    file = invocation.configuration.path
    here = [str(invocation.cwd), *([str(file.parent)] if file else [])] if invocation.settings.plugin else []
    return [*discovery.paths_of(want.path, root), *here]


def _find(
    invocation: Invocation, want: collection.Wanted, shard: Shard | None, zygote_owner: ZygoteOwner
) -> Found:
    """Discovers, selects and shards the tests of this run."""
    options, root = invocation.options, suites_root()
    seed, warning = timings_file.load_for(options.timings, sharded=shard is not None)
    notices = [warning] if warning else []
    timings = timings_file.load(invocation.state.timings)[0].over(seed)
    torch_file = discovery.torch_version_file()
    packages = discovery.package_directories(sys.path)
    key = discovery.context(root, invocation.test_environ, torch_file, packages)
    cache = discovery.Cache(invocation.state.cache, key)
    modules = collection.discover(want, cache, zygote_owner, notices.append, cached=options.list)
    plan = Plan(invocation.ids or (), invocation.policy, _taken(invocation))
    selected = collection.choose(
        want,
        modules,
        options,
        invocation.settings.slow,
        plan.owes,
        lambda: earlier_run.failed(earlier_run.last(invocation.state, "-E 'failed(last)'")),
    )
    if selected.gone:
        more = ", ..." if len(selected.gone) > 1 else ""
        number = count(len(selected.gone), "test")
        notices.append(f"not found: {number} of the last run: {selected.gone[0]}{more}")
    rules = rules_of(
        selected.units,
        invocation.configuration,
        chosen=invocation.chosen,
        own=invocation.environ.keys() - invocation.from_file,
    )
    notices += rule_notices(
        invocation.configuration,
        rules,
        selected.units,
        datetime.date.today(),
        all_run=_everything(options) and shard is None,
    )
    selected = replace(selected, units=tuple(applied(unit, rules.get(unit.id)) for unit in selected.units))
    if invocation.on_devices:
        selected = replace(selected, units=tuple(u for u in selected.units if u.demand.accelerators))
    notices += further_targets.left_out(
        selected.units, zygote_owner.devices, zygote_owner.target or DEFAULT[0]
    )
    selected = collection.cut(selected, shard, seed)  # not by what was kept on this machine
    names = collection.names_to_type(selected.units, want.files)
    outdated = (
        stale(zygote_owner.known_failures, (unit.id for unit in selected.units))
        if _everything(options) and not want.targets and not invocation.on_devices
        else ""
    )
    return Found(
        selected,
        names,
        timings,
        shard,
        discovery.torch_version(torch_file),
        (*notices, *([outdated] if outdated else [])),
        want.sources,
        zygote_owner.target or DEFAULT[0],
        zygote_owner.known_failures,
        zygote_owner.devices,
        rules,
        {name: frozenset(unit.id for unit in each.units) for name, each in modules.items() if each.units},
    )


def _everything(options: argparse.Namespace) -> bool:
    """Whether the run is of all tests that there are, so that what is said of none of them is outdated."""
    parts = (
        options.names,
        options.keywords,
        options.expression,
        options.include,
        options.exclude,
        options.shard,
    )
    return not any(parts) and not options.last_failed and options.resume is None


def _nothing(found: Found) -> ExitCode:
    """The exit code of a run without tests.

    It is no failure where all tests are in other shards: a job that is split into more shards than it has
    tests would otherwise always fail.
    """
    return ExitCode.OK if found.selected.elsewhere else ExitCode.NOTHING_RAN


def _why_nothing(found: Found, shard: Shard | None) -> str:
    if found.selected.elsewhere:
        return f"nothing to run in shard {shard}: the other shards run all {found.selected.elsewhere} tests"
    if found.selected.gone:
        return "nothing to run: no test of the last run is found"
    if found.selected.slow:
        return f"nothing to run: {found.selected.slow} selected tests are slow; --slow adds them"
    return "nothing to run: no test is selected; --list shows what there is"


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
    return ExitCode.OK if selected.units else _nothing(found)


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
        directory, troubles = _directory(invocation)
        taken = _taken(invocation)
        policy = replace(invocation.policy, own=reruns_of(found.rules))
        plan = Plan([u.id for u in found.selected.units], policy, taken)
        info = _info(invocation, found, directory, plan, len(taken))
        record_keeper, more = _journal(invocation, info)
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
        hosts = _other_hosts(invocation, setup, paths)
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
        return _drive(invocation, found, session, taken, reporters, record_keeper, interrupts)


def _other_hosts(invocation: Invocation, setup: Setup, paths: Sequence[str]) -> OtherHosts | None:
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
    return OtherHosts(hosts, offered, invocation.test_environ, sys.path, paths)


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
        conformance=found.target if "conformance" in options.report else None,
        trace=options.trace,
        color=options.color,
    )


def _taken(invocation: Invocation) -> list[TestRecord]:
    """The records that a resumed run takes over: those of attempts at its tests that were not cut short."""
    earlier = invocation.earlier
    tests = frozenset(earlier.info.tests) if earlier else frozenset()
    records = earlier.records if earlier else ()
    return [record for record in records if record.id in tests and record.status is not Status.ENDED]


def _drive(
    invocation: Invocation,
    found: Found,
    session: Session,
    taken: list[TestRecord],
    reporters: Reporters,
    record_keeper: Journal | None,
    interrupts: Interrupts,
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


def _directory(invocation: Invocation) -> tuple[Path | None, tuple[str, ...]]:
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


def _journal(invocation: Invocation, info: RunInfo) -> tuple[Journal | None, tuple[str, ...]]:
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


def _setup(invocation: Invocation, found: Found, directory: Path | None) -> Setup:
    return Setup(
        units={unit.id: unit for unit in found.selected.units},
        timings=found.timings,
        capacity=capacity.capacity(
            invocation.jobs, invocation.environ, invocation.group_limits, found.devices
        ),
        devices=found.devices or DeviceSet(),
        limits=invocation.limits,
        options=invocation.fork_options(directory),
        known=found.known,
        isolate=invocation.options.isolate,
        seed=invocation.settings.seed,
        shuffle=invocation.shuffle,
        rules=found.rules,
        today=datetime.date.today(),
    )


def _info(invocation: Invocation, found: Found, directory: Path | None, plan: Plan, resumed: int) -> RunInfo:
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
