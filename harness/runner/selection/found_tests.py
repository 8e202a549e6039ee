"""``Found``: the tests of a run and what is known about them, and how an invocation finds them."""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.bazel_command import is_bazel, only
from harness.configuration.override import Rule
from harness.conformance.known import stale
from harness.conformance.left_out import LeftOut, before_all
from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.text import count
from harness.runner.command_line import earlier_run
from harness.runner.command_line.invocation import Invocation
from harness.runner.exit_codes import ExitCode
from harness.runner.scheduling import timings as timings_file
from harness.runner.scheduling.plan import Plan
from harness.runner.scheduling.timings import Timings
from harness.runner.scheduling.unit import Unit
from harness.runner.selection import affected_tests, collection, discovery, further_targets
from harness.runner.selection.applied_overrides import applied, rules_of
from harness.runner.selection.applied_overrides import notices as rule_notices
from harness.runner.selection.collection import Selected
from harness.runner.selection.shard_variables import Shard
from harness.runner.selection.suites_root import suites_root
from harness.runner.workers.zygote_owner import ZygoteOwner
from harness.settings import EnvVar
from harness.targets.builtin import DEFAULT
from harness.targets.device_set import DeviceSet
from harness.targets.known import Known

# What -k means to pytest alone; no test has such a name, but a parameter of pytest's might.
_PYTEST_EXPRESSION = re.compile(r"^not |\s(and|or)\s")


@dataclass(frozen=True, slots=True)
class Found:
    """The tests of a run and what is known about them.

    ``notices`` are shown when there are reporters to show them; ``names`` is as in ``RunInfo``. ``sources``
    maps the test modules to their files. ``target`` is the name of the target that is tested, ``known`` its
    known failures, ``devices`` its accelerators (None: it has none but the CPU), and ``rules`` what the
    configuration says of tests. ``there`` has the ids of all tests of the modules that were imported,
    selected or not, ``others`` the modules beside them that were not.
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
    others: tuple[str, ...]

    @property
    def left_out(self) -> LeftOut:
        """What the run is not about, and the tests that it is about: none has run."""
        return before_all(self.sources, self.others, self.there.values())

    @property
    def empty_files(self) -> tuple[Path, ...]:
        """The files in which there is no test at all, where that is all of them."""
        return () if self.there else tuple(self.sources.values())


def first_paths(invocation: Invocation, want: collection.Wanted, root: Path) -> list[str]:
    """The first entries of ``sys.path``; a plugin may be in the working directory or beside the file."""
    file = invocation.configuration.path
    here = [str(invocation.cwd), *([str(file.parent)] if file else [])] if invocation.settings.plugin else []
    return [*discovery.paths_of(want.path, root), *here]


def find(
    invocation: Invocation, want: collection.Wanted, shard: Shard | None, zygote_owner: ZygoteOwner
) -> Found:
    """Discovers, selects and shards the tests of this run."""
    seed, warning = timings_file.load_for(invocation.options.timings, sharded=shard is not None)
    notices = [warning] if warning else []
    torch_file = discovery.torch_version_file()
    modules = _modules(invocation, want, zygote_owner, torch_file, notices.append)
    selected, notice = _chosen(invocation, want, modules)
    notices += notice
    selected, words = affected_tests.narrowed(invocation, selected, want.sources)
    notices += words
    rules, notice = _rules(invocation, selected.units, shard)
    notices += notice
    units = (applied(unit, rules.get(unit.id)) for unit in selected.units)
    takes_all = not invocation.on_devices
    selected = replace(selected, units=tuple(u for u in units if takes_all or u.demand.accelerators))
    target = zygote_owner.target or DEFAULT[0]
    if zygote_owner.devices is not None and not invocation.environ.get(EnvVar.HOSTS):
        notices += further_targets.left_out(selected.units, len(zygote_owner.devices.names), target)
    selected = collection.cut(selected, shard, seed)  # not by what was kept on this machine
    return Found(
        selected,
        _names(invocation, selected, want),
        timings_file.load(invocation.state.timings)[0].over(seed),
        shard,
        discovery.torch_version(torch_file),
        (*notices, *_outdated(invocation, want, selected, zygote_owner.known_failures)),
        want.sources,
        target,
        zygote_owner.known_failures,
        zygote_owner.devices,
        rules,
        {name: frozenset(unit.id for unit in each.units) for name, each in modules.items() if each.units},
        want.others,
    )


def _names(invocation: Invocation, selected: Selected, want: collection.Wanted) -> dict[str, str]:
    """What a user types for a test after the run's command, where it is not the id."""
    if is_bazel(invocation.command):
        return {unit.id: only(unit.name) for unit in selected.units}
    return collection.names_to_type(selected.units, want.files)


def _modules(
    invocation: Invocation,
    want: collection.Wanted,
    zygote_owner: ZygoteOwner,
    torch_file: Path | None,
    show_notice: Callable[[str], None],
) -> dict[str, discovery.ModuleTests]:
    """The tests of all wanted modules; of those that are only listed, what the cache has."""
    packages = discovery.package_directories(sys.path)
    key = discovery.context(suites_root(), invocation.test_environ, torch_file, packages)
    cache = discovery.Cache(invocation.state.cache, key)
    return collection.discover(want, cache, zygote_owner, show_notice, cached=invocation.options.list)


def _chosen(
    invocation: Invocation, want: collection.Wanted, modules: Mapping[str, discovery.ModuleTests]
) -> tuple[Selected, list[str]]:
    """The tests that the options select, of all shards, and a line about those that are gone."""
    plan = Plan(invocation.ids or (), invocation.policy, taken_over(invocation))
    selected = collection.choose(
        want,
        modules,
        invocation.options,
        invocation.settings.slow,
        plan.owes,
        lambda: earlier_run.failed(earlier_run.last(invocation.state, "-E 'failed(last)'")),
    )
    if not selected.gone:
        return selected, []
    more = ", ..." if len(selected.gone) > 1 else ""
    number = count(len(selected.gone), "test")
    return selected, [f"not found: {number} of the last run: {selected.gone[0]}{more}"]


def _rules(
    invocation: Invocation, units: Sequence[Unit], shard: Shard | None
) -> tuple[dict[str, Rule], list[str]]:
    """What the configuration says of these tests, and lines about what it says of none."""
    configuration = invocation.configuration
    own = invocation.environ.keys() - invocation.from_file
    rules = rules_of(units, configuration, chosen=invocation.chosen, own=own)
    all_run = _everything(invocation.options) and shard is None
    lines = rule_notices(configuration, rules, units, datetime.date.today(), all_run=all_run)
    return rules, list(lines)


def _outdated(
    invocation: Invocation, want: collection.Wanted, selected: Selected, known: tuple[Known, ...]
) -> tuple[str, ...]:
    """A line about known failures of tests that are not there, where all tests of the suites run."""
    if not _everything(invocation.options) or want.targets or invocation.on_devices:
        return ()
    line = stale(known, (unit.id for unit in selected.units))
    return (line,) if line else ()


def _everything(options: argparse.Namespace) -> bool:
    """Whether the run is of all tests that there are, so that what is said of none of them is outdated."""
    parts = (
        options.names,
        options.keywords,
        options.expression,
        options.include,
        options.exclude,
        options.shard,
        options.changed,
        options.affected_by,
    )
    return not any(parts) and not options.last_failed and options.resume is None


def nothing_code(selected: Selected) -> ExitCode:
    """The exit code of a run without tests.

    It is no failure where all tests are in other shards: a job that is split into more shards than it has
    tests would otherwise always fail. Nor is it one where no test can be affected by what has changed.
    """
    return ExitCode.OK if selected.elsewhere or selected.unaffected else ExitCode.NOTHING_RAN


def why_nothing(
    selected: Selected,
    shard: Shard | None,
    empty_files: Sequence[Path] = (),
    keywords: Sequence[str] = (),
) -> str:
    """Tells the user why no test runs.

    ``empty_files`` are the wanted ones, where none of them has a test, and ``keywords`` the values of ``-k``.
    """
    if selected.elsewhere:
        return f"nothing to run in shard {shard}: the other shards run all {selected.elsewhere} tests"
    if selected.unaffected:
        return f"nothing to run: what has changed can affect none of {count(selected.unaffected, 'test')}"
    if selected.gone:
        return "nothing to run: no test of the last run is found"
    if selected.slow:
        return f"nothing to run: {selected.slow} selected tests are slow; --slow adds them"
    if empty_files:
        more = f" and {count(len(empty_files) - 1, 'other file')}" if len(empty_files) > 1 else ""
        return f"nothing to run: there is no test in {empty_files[0].name}{more}; no report is written"
    if any(_PYTEST_EXPRESSION.search(each) for each in keywords):
        return (
            "nothing to run: no test is selected, and no report is written; -k takes a pattern, not pytest's "
            "and, or and not: -k A -k B, or -E 'test(A) | !test(B)'"
        )
    return "nothing to run: no test is selected, and no report is written; --list shows what there is"


def taken_over(invocation: Invocation) -> list[TestRecord]:
    """The records that a resumed run takes over: those of attempts at its tests that were not cut short."""
    earlier = invocation.earlier
    tests = frozenset(earlier.info.tests) if earlier else frozenset()
    records = earlier.records if earlier else ()
    return [record for record in records if record.id in tests and record.status is not Status.ENDED]
