"""``decide``: which tests a change of files can affect by the map, and in words what that does not know."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.impact.changes import Change
from harness.impact.impact_map import ImpactMap

# Files whose code is in every test, though none calls it.
EVERYWHERE = ("conftest.py", "setup.py", "sitecustomize.py")
# Packages of which a map has every file that a test's process imports.
WHOLE = ("torch/", "harness/")


@dataclass(frozen=True, slots=True)
class Decision:
    """``tests`` are those to run, None for all; ``words`` say why, a line each."""

    tests: frozenset[str] | None
    words: tuple[str, ...]


def decide(
    changes: Sequence[Change],
    known: ImpactMap,
    torch: str,
    tests: Collection[str],
    importing: Callable[[Collection[str]], Mapping[str, frozenset[str]]],
) -> Decision:
    """Which of ``tests`` to run. ``torch`` is the release here.

    ``importing(files)`` gives for each of the files the tests whose modules import it, directly or through
    others of the project; it is called once at most, with those that changed outside of functions.
    """
    if known.ran and known.torch != torch:
        return Decision(None, (f"all tests run: the map is of torch {known.torch}, here is {torch}",))
    if not known.ran:
        return Decision(None, ("all tests run: there is no map yet; --record-map makes one",))
    files = known.files
    for change in changes:
        if why := _unknowable(change, known, files):
            return Decision(None, (f"all tests run: {why}",))
    outside = [change.file for change in changes if not change.inside]
    importers = importing(outside) if outside else {}
    found: set[str] = set()
    for change in changes:
        by_map = _of(change, known)
        if change.file in importers:
            by_map |= importers[change.file]
            if not by_map and change.file not in files:
                why = f"the map does not know {change.file}, and no test's module imports it"
                return Decision(None, (f"all tests run: {why}",))
        found |= by_map
    new = {test for test in tests if test not in known.ran}
    selected = frozenset(tests) & (found | new)
    return Decision(selected, tuple(_words(changes, len(selected), len(tests), len(new))))


def _unknowable(change: Change, known: ImpactMap, files: Collection[str]) -> str:
    """Why the map cannot say what a change affects; "" where it can."""
    file = change.file
    if not file.endswith(".py"):
        return f"the map knows Python's files only, and {file} has changed"
    if file.rpartition("/")[2] in EVERYWHERE:
        return f"{file} may change every test"
    if change.gone:
        return f"{file} is there no more"
    if not change.inside and file.startswith(WHOLE) and file in known.before:
        return f"{file} has changed outside of functions, and is imported before any test"
    if file.startswith(WHOLE) and file not in files:
        return f"the map does not know {file}"
    return ""


def _of(change: Change, known: ImpactMap) -> set[str]:
    found = {test for test, ran in known.ran.items() if change.file in ran}
    if change.inside:
        return found
    return found | {test for test, files in known.imported.items() if change.file in files}


def _words(changes: Sequence[Change], selected: int, total: int, new: int) -> Iterable[str]:
    if not changes:
        yield "no file has changed"
    files = changes[0].file if len(changes) == 1 else f"{len(changes)} files"
    more = f", {new} of them not in the map yet" if new else ""
    yield f"{selected} of {total} tests can be affected by {files}{more}"
