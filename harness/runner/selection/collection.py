"""Turns the options of a run into its tests: names to modules, modules to tests, then selection and shard."""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.record import TestRecord
from harness.runner.messages import Loaded
from harness.runner.scheduling.timings import Timings
from harness.runner.scheduling.unit import Unit
from harness.runner.selection import discovery, expression, named_tests, own_names
from harness.runner.selection.discovery import Cache, ModuleTests
from harness.runner.selection.module_names import file_of_module
from harness.runner.selection.shard_assignment import assign
from harness.runner.selection.shard_variables import Shard, shard_from_environ, touch_status_file
from harness.runner.workers import controller_records
from harness.runner.workers.zygote_owner import ZygoteOwner

# What unittest puts before the name of a module that does not import or that skips itself, in the ids that it
# prints.
_OF_UNITTEST = ("unittest.loader._FailedTest.", "unittest.loader.ModuleSkipped.")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line names, before any module is imported.

    ``ids`` are the only tests to run; where it is None, ``targets`` decide. ``path`` holds the entries that
    ``sys.path`` needs for modules outside the project. ``sources`` maps each module to the file that was
    meant. ``files`` maps a module to its path where its name alone does not lead to that file. ``others`` are
    the modules of the suites that are not imported.
    """

    targets: tuple[named_tests.Target, ...]
    modules: tuple[str, ...]
    ids: tuple[str, ...] | None = None
    path: tuple[str, ...] = ()
    sources: Mapping[str, Path] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selected:
    """The tests of this run, in order.

    ``ready`` are the records of those that need no worker. ``slow`` is the number of tests that were left out
    because ``--slow`` was not given. ``selection`` are the ids of the tests of all shards, empty where the
    run is not split, ``elsewhere`` the number of those that other shards run, ``unaffected`` of those that
    no change can affect. ``gone`` are the ids that an earlier run still had to run and that neither exist nor
    have a stand-in for their module.
    """

    units: tuple[Unit, ...]
    ready: tuple[TestRecord, ...] = ()
    slow: int = 0
    selection: tuple[str, ...] = ()
    elsewhere: int = 0
    unaffected: int = 0
    gone: tuple[str, ...] = ()


def wanted(
    options: argparse.Namespace,
    root: Path,
    cwd: Path,
    ids: Sequence[str] | None,
    default: Sequence[str] = (),
) -> Wanted:
    """What the options name; ``ids`` limits it to tests of an earlier run. UsageError for a wrong name.

    ``default`` are the names where the options have none, and where modules of the project's own are looked
    for; without them, all known modules are wanted. With ``--suites`` names are of those modules alone, and
    paths relative to ``root``.
    """
    names = [_module_behind(name) for name in options.names or default]
    names = own_names.with_paths(names, default, cwd)
    here = () if options.suites else _modules_here(names, cwd)
    roots = {**dict.fromkeys(discovery.modules_below(root), root), **dict.fromkeys(here, cwd)}
    known = tuple(roots)
    targets = named_tests.resolve(names, roots, root if options.suites else cwd)
    outside = tuple(m for t in targets for m in t.modules)
    everything = tuple(dict.fromkeys([*known, *outside]))
    named_tests.check_patterns("--include", options.include, everything)
    named_tests.check_patterns("--exclude", options.exclude, everything)
    base = known if targets else discovery.standard(known)
    modules = named_tests.modules_to_load(base, targets, options.include, options.exclude)
    limit = expression.any_of(options.expression)
    modules = tuple(module for module in modules if limit is None or limit.may_take(module))
    if ids is not None:
        candidates = tuple(dict.fromkeys([*modules, *known])) if not targets else modules
        modules = _modules_of(ids, candidates)
    path = dict.fromkeys([*(entry for t in targets for entry in t.path), *([str(cwd)] if here else [])])
    sources = _sources(modules, targets, roots)
    files = {m: os.path.relpath(f, cwd) for m, f in sources.items() if _by_name(m, roots, cwd) != f}
    others = tuple(module for module in known if module not in sources)
    only = tuple(ids) if ids is not None else None
    return Wanted(targets, modules, only, tuple(path), sources, files, others)


def _sources(
    modules: Iterable[str], targets: Iterable[named_tests.Target], roots: Mapping[str, Path]
) -> dict[str, Path]:
    """The file of each module: the one that a target names, else the known one."""
    files = {module: file_of_module(module, root) for module, root in roots.items()}
    for target in targets:
        for module in target.modules:
            for root in target.path:
                file = file_of_module(module, Path(root))
                if file.is_file() or module not in files:
                    files[module] = file
    return {module: files[module].resolve() for module in modules}


def _by_name(module: str, roots: Mapping[str, Path], cwd: Path) -> Path | None:
    """The file to which the module's name leads in the working directory."""
    here = file_of_module(module, cwd)
    if here.is_file():
        return here.resolve()
    return file_of_module(module, roots[module]).resolve() if module in roots else None


def _module_behind(name: str) -> str:
    """The name without unittest's prefix for a module that does not import or that skips itself."""
    for prefix in _OF_UNITTEST:
        name = name.removeprefix(prefix)
    return name


def _modules_here(names: Iterable[str], cwd: Path) -> list[str]:
    """The modules, named by dotted names, that are files below the working directory, as for ``python -m``.

    Only the leading parts of a name that are identifiers can name a module; a test's name may hold any text.
    """
    found = []
    for name in names:
        if os.path.isfile(cwd / named_tests.split_path(name)[0]):
            continue
        parts = list(itertools.takewhile(str.isidentifier, name.split(".")))
        modules = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        found += [module for module in modules if os.path.isfile(file_of_module(module, cwd))]
    return found


def names_to_type(units: Iterable[Unit], files: Mapping[str, str]) -> dict[str, str]:
    """Maps the id of each test that ``run_tests.py`` does not find by its id to a name that it does find.

    Such a test has its module in ``files``, or its class comes from another module than the test's.
    """
    names = {}
    for unit in units:
        file = files.get(unit.module)
        if file is not None:
            names[unit.id] = file if unit.stands_in else f"{file}::{unit.name}"
        elif unit.name == unit.id and not unit.stands_in:
            names[unit.id] = f"{unit.module}.{unit.name}"
    return names


def _modules_of(ids: Iterable[str], modules: Sequence[str]) -> tuple[str, ...]:
    """The modules that tests of these ids may come from; all modules where one of the ids names none."""
    known = set(modules)
    needed = set()
    for test_id in ids:
        name = _module_behind(test_id)
        while name and name not in known:
            name = name.rpartition(".")[0]
        if not name:
            return tuple(modules)
        needed.add(name)
    return tuple(module for module in modules if module in needed)


def discover(
    want: Wanted, cache: Cache, zygote_owner: ZygoteOwner, show_notice: Callable[[str], None], *, cached: bool
) -> dict[str, ModuleTests]:
    """The tests of every wanted module, in order.

    The zygote imports the modules; with ``cached``, those in the cache are taken from there instead. A module
    that was imported from another file than the one that was meant has an error. ``show_notice`` is called
    with notices of one line.
    """
    known = {m: tests for m in want.modules if (tests := cache.get(m, want.sources[m])) is not None}
    found = dict(known) if cached else {}
    missing = [module for module in want.modules if module not in found]
    dirty = [module for module in missing if module in known and known[module].dirty]
    rest = [module for module in missing if module not in dirty]
    for part in (dirty, rest):  # a dirty module costs the zygote all that it has imported, so these go first
        for loaded in zygote_owner.load(part, show_notice) if part else ():
            checked = _checked(loaded, want.sources[loaded.module])
            cache.put(checked)
            found[loaded.module] = discovery.module_tests(checked)
    cache.save()
    return {module: found[module] for module in want.modules}


def _checked(loaded: Loaded, source: Path) -> Loaded:
    """The zygote's answer about a module; an error in its place where the module is from another file."""
    if not loaded.files or discovery.is_from(source, loaded.module, loaded.files):
        return loaded
    name = loaded.module
    error = f"ImportError: {source} is the module {name}, and another file of that name is found before it"
    return replace(loaded, units=[], error=error)


def choose(
    want: Wanted,
    found: Mapping[str, ModuleTests],
    options: argparse.Namespace,
    slow: bool,
    owed: Callable[[str], bool] = lambda test_id: True,
    failed: Callable[[], Collection[str]] = tuple,
) -> Selected:
    """The tests that the options select from those that were found, before sharding.

    ``failed`` gives the ids of those that failed in the last run, where an expression asks for them.

    An id of ``want.ids`` that was not found is reported as gone only if ``owed`` returns True for it, which
    means that the test still has to run.
    """
    units = discovery.merge_units(found.values())
    takes = _takes(options, failed)
    gone: tuple[str, ...] = ()
    if want.ids is not None:
        by_id = {unit.id: unit for unit in units}
        missing = [i for i in want.ids if i not in by_id and owed(i)]
        instead = {i: _in_place_of(i, found) for i in missing}
        gone = tuple(i for i in missing if not instead[i])
        picked = named_tests.Selection(tuple(by_id[i] for i in want.ids if i in by_id))
        if options.resume is None:
            picked = _select(picked.units, (), options, takes, slow=True)
        others = _select([u for i in missing for u in instead[i]], want.targets, options, takes, slow=slow)
        units = tuple({unit.id: unit for unit in (*picked.units, *others.units)}.values())
        picked = named_tests.Selection(units, others.slow)
    else:
        picked = _select(units, want.targets, options, takes, slow=slow)
    return Selected(
        picked.units, tuple(ready_records(picked.units, found, want.sources)), picked.slow, gone=gone
    )


def _in_place_of(test_id: str, found: Mapping[str, ModuleTests]) -> list[Unit]:
    """The units that run in place of a test that does not exist any more.

    That is the stand-in for the test's module where the module does not import or skips itself now; the
    stand-in for every broken module where the id names no known module; and all tests of the module where
    the id is that of a stand-in.
    """
    module = _module_behind(test_id)
    stood_in = module in found
    while module and module not in found:
        module = module.rpartition(".")[0]
    modules = [found[module]] if module else list(found.values())
    units = [unit for tests in modules for unit in tests.all_units]
    if not module:
        return [unit for unit in units if unit.broken]
    return [unit for unit in units if stood_in or unit.stands_in]


def _takes(options: argparse.Namespace, failed: Callable[[], Collection[str]]) -> Callable[[Unit], bool]:
    """What the expressions say of a test. They count once: a run that goes on has the tests that it had."""
    limit = expression.any_of(options.expression) if options.resume is None else None
    if limit is None:
        return lambda unit: True
    ids = frozenset(failed() if limit.reads_last else ())
    return lambda unit: limit.takes(unit, ids)


def _select(
    units: Sequence[Unit],
    targets: Sequence[named_tests.Target],
    options: argparse.Namespace,
    takes: Callable[[Unit], bool],
    *,
    slow: bool,
) -> named_tests.Selection:
    return named_tests.select(
        units,
        targets,
        keywords=options.keywords,
        include=options.include,
        exclude=options.exclude,
        slow=slow,
        takes=takes,
    )


def ready_records(
    units: Iterable[Unit], found: Mapping[str, ModuleTests], sources: Mapping[str, Path]
) -> Iterable[TestRecord]:
    """Yields the records of the units that cannot run.

    Their module does not import or skips itself, or needs pytest, which cannot run it here, or several tests
    share their id. ``sources`` are the modules' files.
    """
    several = discovery.duplicates(found.values())
    for unit in units:
        module = found[unit.module]
        if module.error:
            yield controller_records.broken_module(unit, module.error, sources.get(unit.module))
        elif module.refusal:
            path = os.path.relpath(sources[unit.module])
            yield controller_records.refused_module(unit, module.refusal, path)
        elif module.skipped is not None:
            yield controller_records.skipped_module(unit, module.skipped)
        elif unit.id in several:
            yield controller_records.duplicate(unit, several[unit.id])


def shard_of(options: argparse.Namespace, environ: Mapping[str, str]) -> Shard | None:
    """The shard that ``--shard`` names, else the environment's. UsageError where it is not a valid shard."""
    if options.shard is not None:
        return Shard.parse(options.shard)
    touch_status_file(environ)
    return shard_from_environ(environ)


def cut(selected: Selected, shard: Shard | None, timings: Timings) -> Selected:
    """The part of the selection that the shard runs, in the order of discovery; all of it without a shard."""
    if shard is None:
        return selected
    mine = {unit.id for unit in assign(selected.units, timings, shard.total)[shard.number - 1]}
    return replace(
        selected,
        units=tuple(u for u in selected.units if u.id in mine),
        ready=tuple(r for r in selected.ready if r.id in mine),
        selection=tuple(u.id for u in selected.units),
        elsewhere=len(selected.units) - len(mine),
    )
