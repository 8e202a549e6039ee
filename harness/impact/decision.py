"""``decide``: which tests a change of files can affect by the map, and in words what that does not know."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from harness.impact.changes import Change
from harness.impact.known_tests import HARNESS, KnownTests
from harness.report.text import count

# Files whose code is in every test, though none calls it.
EVERYWHERE = ("conftest.py", "setup.py", "sitecustomize.py")
# Packages that tests' processes have imported before any test; what their modules execute then is not known.
IMPORTED_BEFORE = ("torch/", HARNESS)


@dataclass(frozen=True, slots=True)
class Decision:
    """``tests`` are those to run, None for all; ``words`` say why."""

    tests: frozenset[str] | None
    words: str


def decide(
    changes: Sequence[Change],
    known: KnownTests,
    torch: str,
    tests: Collection[str],
    importing: Callable[[str], Collection[str]],
) -> Decision:
    """Which of ``tests`` to run. ``torch`` is the release here.

    What the tests execute now that executed a file which has changed since is not known, so they run,
    whoever asks. ``importing(file)`` gives the tests whose modules import a file of the project, directly or
    through others of its files.
    """
    if why := _unusable(known, torch, tests):
        return Decision(None, f"all tests run: {why}")
    new = {test for test in tests if test not in known.tests}
    changed = known.changed_for([change.file for change in changes])
    affected = new.union(*changed.values())
    for change in changes:
        found = known.executing(change.file)
        if why := _unknowable(change):
            return Decision(None, f"all tests run: {why}")
        if not (change.inside and found):
            found |= set(importing(change.file))
        if not found:
            why = f"no test in the map executes {change.file}, and none imports it by its source"
            return Decision(None, f"all tests run: {why}")
        affected |= found
    selected = affected.intersection(tests)
    files = changes[0].file if len(changes) == 1 else count(len(changes), "changed file")
    words = f"{len(selected)} of {count(len(tests), 'test')} can be affected by {files}"
    if new:
        words += f", {len(new)} of them not in the map yet"
    if further := changed.keys() - {change.file for change in changes}:
        words += f"; {count(len(further), 'file')} changed since the map was recorded: counted as changed"
    return Decision(frozenset(selected), words)


def _unusable(known: KnownTests, torch: str, tests: Collection[str]) -> str:
    """Why nothing is known of these tests; "" where something is."""
    if known.torch != torch:
        return f"the map is of torch {known.torch}, here is {torch}; --record-map makes one"
    if known.tests.keys().isdisjoint(tests):
        return "there is no map of them yet; --record-map makes one"
    return ""


def _unknowable(change: Change) -> str:
    """Why the map cannot say what a change affects; "" where it can."""
    file = change.file
    if not file.endswith(".py"):
        return f"the map knows Python's files only, and {file} has changed"
    if file.rpartition("/")[2] in EVERYWHERE:
        return f"{file} may change every test"
    if change.gone:
        return f"{file} is there no more"
    if file.startswith(IMPORTED_BEFORE) and not change.inside:
        return f"{file} has changed outside of functions, and is imported before any test"
    return ""
