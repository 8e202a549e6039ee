"""``--changed``, ``--affected-by``, ``--record-map``: a run of what a change can affect, and the map for it.

The map is ``impact.json.gz`` in the state directory; of tests that it lacks, the map beside the suites
counts. A run with ``--record-map`` replaces what the first says of the tests that passed, and leaves out
tests that are gone or whose files have changed since. Its own directory gets a map of its tests alone.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from harness.errors import UsageError
from harness.impact import changes, files, impact_map, notes, project_imports, recorder
from harness.impact.changes import Change
from harness.impact.decision import Decision, decide
from harness.impact.files import Roots
from harness.impact.known_tests import known_tests
from harness.record import TestRecord
from harness.runner import run_directory
from harness.runner.command_line.invocation import Invocation
from harness.runner.scheduling.unit import Unit
from harness.runner.selection.collection import Selected
from harness.runner.selection.module_names import import_root
from harness.runner.selection.suites_root import suites_root

# Where processes note what tests execute, in the run's directory while it runs.
EXECUTED = "executed"


def narrowed(
    invocation: Invocation, selected: Selected, sources: Mapping[str, Path]
) -> tuple[Selected, tuple[str, ...]]:
    """What of a selection the changes can affect that the options speak of, and words about that.

    ``sources`` are the files of the test modules. A run that goes on has the tests that it had. UsageError
    where git cannot tell what has changed, or where a named file is not there.
    """
    options = invocation.options
    if options.resume is not None or (options.changed is None and not options.affected_by):
        return selected, ()
    roots = _roots(invocation.cwd)
    found = [*_named(options.affected_by, roots, invocation.cwd)]
    if options.changed is not None:
        top = changes.top_of(invocation.cwd)
        for path, change in changes.since(options.changed, top).items():
            name = roots.name(path.resolve())
            found += [replace(change, file=name)] if name is not None else []
    decision = _decision(invocation, found, selected.units, sources, roots)
    if (kept := decision.tests) is None:
        return selected, (decision.words,)
    units = tuple(unit for unit in selected.units if unit.id in kept)
    ready = tuple(record for record in selected.ready if record.id in kept)
    left_out = len(selected.units) - len(units)
    return replace(selected, units=units, ready=ready, unaffected=left_out), (decision.words,)


def _named(texts: Iterable[str], roots: Roots, cwd: Path) -> Iterable[Change]:
    for text in texts:
        name = roots.named(text, cwd)
        yield changes.named(name, roots.path(name))


def _decision(
    invocation: Invocation,
    found: list[Change],
    units: Collection[Unit],
    sources: Mapping[str, Path],
    roots: Roots,
) -> Decision:
    modules = {unit.module: sources[unit.module] for unit in units}
    places = dict.fromkeys([roots.project, *map(import_root, modules.values())])
    imports = project_imports.Imports(places, roots.project)

    def importing(file: str) -> list[str]:
        path = roots.path(file).resolve()
        names = {name for name, source in modules.items() if path in imports.reached(source)}
        return [unit.id for unit in units if unit.module in names]

    maps = map(impact_map.read, (invocation.state.impact_map, of_suites()))
    asked = [unit.id for unit in units]
    known = known_tests(maps, asked, _torch(), functools.cache(_digest(roots)))
    # A stand-in for a module that does not import has no record, and runs.
    return decide(found, known, _torch(), asked, importing)


def of_suites() -> Path:
    """The map that comes with the suites."""
    return suites_root() / "suites" / impact_map.NAME


def _digest(roots: Roots) -> Callable[[str], str]:
    return lambda file: impact_map.digest_of(roots.path(file))


def _roots(cwd: Path) -> Roots:
    try:
        project = changes.top_of(cwd)
    except UsageError:  # no repository
        project = cwd
    return files.roots_of(project, suites_root())


def _torch() -> str:
    """The release of torch, without what tells builds of one source apart (``2.13.0+cpu``); "" without it."""
    from importlib import metadata  # which imports a mail library, of use here alone

    try:
        return metadata.version("torch").partition("+")[0]
    except metadata.PackageNotFoundError:
        return ""


# -- recording


def recording(invocation: Invocation, directory: Path | None) -> dict[str, str]:
    """The variables of workers by which what tests execute is noted; none where nobody asks for it.

    UsageError where it cannot be: for a run without a directory, over several hosts, or where the map that it
    would add to is none, or cannot be written.
    """
    if not invocation.options.record_map:
        return {}
    if directory is None or invocation.options.hosts is not None:
        raise UsageError("--record-map takes a run on this host alone, with a directory for its files")
    run_directory.check_writable(invocation.state.path, "--record-map: the state directory")
    impact_map.read(invocation.state.impact_map)
    if invocation.options.resume is None:
        (directory / impact_map.NAME).unlink(missing_ok=True)  # of a run that was here before
    executed = directory.resolve() / EXECUTED
    shutil.rmtree(executed, ignore_errors=True)
    executed.mkdir(parents=True)
    return recorder.environ_for(executed, _roots(invocation.cwd).directories)


def keep(
    invocation: Invocation,
    directory: Path | None,
    records: Iterable[TestRecord],
    there: Mapping[str, Collection[str]],
) -> None:
    """Adds to the map what was noted of the tests that passed; ``there`` are the tests of modules by now."""
    if not invocation.options.record_map or directory is None:
        return
    roots, executed = _roots(invocation.cwd), directory.resolve() / EXECUTED
    passed = {record.id for record in records if record.ok}
    found = impact_map.collect(
        notes.read(executed), passed, lambda path: roots.name(Path(path)), _digest(roots), _torch()
    )
    still = {test for tests in there.values() for test in tests}
    of_run = directory / impact_map.NAME
    impact_map.joined([impact_map.read(of_run), found]).write(of_run)
    path = invocation.state.impact_map
    old = impact_map.read(path)
    changed = impact_map.changed_since(old, _digest(roots))
    impact_map.merged(old, changed, found, lambda test: test in still or not _below(test, there)).write(path)
    shutil.rmtree(executed, ignore_errors=True)


def _below(test: str, modules: Collection[str]) -> bool:
    """Whether a test's id is below one of these modules."""
    parts = test.partition("[")[0].split(".")
    return any(".".join(parts[:end]) in modules for end in range(1, len(parts)))
