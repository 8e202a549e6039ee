"""What a target has gained and lost between two reports, cell by cell and test by test. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.conformance.document import Conformance
from harness.conformance.left_out import LeftOut
from harness.conformance.matrix import Cell, State
from harness.report.text import count


@dataclass(frozen=True, slots=True)
class Change:
    """A cell in two reports; None where one does not have it."""

    old: Cell | None
    new: Cell | None

    def __str__(self) -> str:
        """The change as one line, with what was said about a cell that is not right any more."""
        of = self.new or self.old
        was = self.old.state.value if self.old else "not there"
        now = self.new.state.value if self.new else "gone"
        said = self.new.said if self.new is not None and not self.new.state.good else ""
        return f"{of}: {was} -> {now}" + (f": {said}" if said else "")


@dataclass(frozen=True, slots=True)
class Differences:
    """What differs between two reports.

    ``lost`` has worked and fails now. ``gone`` has worked and is not there, not declared or skipped now.
    ``not_run`` is what the newer run was not about, or had not come to when it ended: nothing is known of it.
    ``gained`` works and has not. ``other`` differs without having worked before or after.
    """

    lost: tuple[Change, ...] = ()
    gone: tuple[Change, ...] = ()
    not_run: tuple[Change, ...] = ()
    gained: tuple[Change, ...] = ()
    other: tuple[Change, ...] = ()

    @property
    def loses(self) -> bool:
        """Whether anything that has worked does not."""
        return bool(self.lost or self.gone)


def differences(old: Conformance, new: Conformance) -> Differences:
    """What ``new`` has gained and lost since ``old``."""
    changes = [
        *_changes(old.matrix.tests, new.matrix.tests),
        *_changes(old.matrix.cells, new.matrix.cells),
    ]
    return Differences(
        *(
            tuple(each for each in changes if _kind(each, new.left_out) == kind)
            for kind in ("lost", "gone", "not run", "gained", "other")
        )
    )


def _changes(old: Iterable[Cell], new: Iterable[Cell]) -> Iterator[Change]:
    before: Mapping[object, Cell] = {each.key: each for each in old}
    after: Mapping[object, Cell] = {each.key: each for each in new}
    for key in sorted({*before, *after}, key=str):
        change = Change(before.get(key), after.get(key))
        if change.old is None or change.new is None or change.old.state is not change.new.state:
            yield change


def _kind(change: Change, left_out: LeftOut) -> str:
    if change.old is not None and _not_run(change.old, change.new, left_out):
        return "not run"
    worked = change.old is not None and change.old.state.good
    works = change.new is not None and change.new.state.good
    if works:
        return "other" if worked else "gained"
    if not worked:
        return "other"
    return "lost" if change.new is not None and change.new.state.bad else "gone"


def _not_run(old: Cell, new: Cell | None, left_out: LeftOut) -> bool:
    """Whether the newer run tells nothing of a cell because it did not run its test."""
    return (new is None or new.state is State.NOT_RUN) and left_out.has(old.test)


def text(found: Differences, old: Conformance, new: Conformance) -> str:
    """The differences as lines: what was lost first, and a line with the counts at the end."""
    lines = [f"old: {_named(old)}", f"new: {_named(new)}"]
    for title, changes in (
        ("lost", found.lost),
        ("gone", found.gone),
        ("gained", found.gained),
        ("other changes", found.other),
    ):
        if changes:
            lines += ["", f"{title}:", *(f"  {change}" for change in changes)]
    if found.not_run:
        lines += ["", "not run this time:", *(f"  {line}" for line in _by_suite(found.not_run))]
    counts = f"{len(found.lost)} lost, {len(found.gone)} gone, {len(found.gained)} gained"
    rest = f", {len(found.not_run)} not run this time" if found.not_run else ""
    return "\n".join([*lines, "", counts + rest])


def _by_suite(changes: Iterable[Change]) -> Iterator[str]:
    """A line for each suite with the numbers of its tests and cells."""
    tests, cells = Counter[str](), Counter[str]()
    for old in (change.old for change in changes if change.old is not None):
        (cells if old.coordinates else tests)[old.suite] += 1
    for suite in sorted({*tests, *cells}):
        named = ((tests[suite], "test"), (cells[suite], "cell"))
        yield f"{suite}: {' and '.join(count(number, what) for number, what in named if number)}"


def _named(found: Conformance) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items() if version)
    return f"{found.target} ({versions}): {found.line}"
