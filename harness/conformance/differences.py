"""What a target has gained and lost between two reports, cell by cell and test by test. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.conformance.document import Conformance
from harness.conformance.matrix import Cell


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

    ``lost`` has worked and fails now. ``gone`` has worked and is not there, not declared or not run any more.
    ``gained`` works and has not. ``other`` differs without having worked before or after.
    """

    lost: tuple[Change, ...] = ()
    gone: tuple[Change, ...] = ()
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
            tuple(each for each in changes if _kind(each) == kind)
            for kind in ("lost", "gone", "gained", "other")
        )
    )


def _changes(old: Iterable[Cell], new: Iterable[Cell]) -> Iterator[Change]:
    before: Mapping[object, Cell] = {each.key: each for each in old}
    after: Mapping[object, Cell] = {each.key: each for each in new}
    for key in sorted({*before, *after}, key=str):
        change = Change(before.get(key), after.get(key))
        if change.old is None or change.new is None or change.old.state is not change.new.state:
            yield change


def _kind(change: Change) -> str:
    worked = change.old is not None and change.old.state.good
    works = change.new is not None and change.new.state.good
    if works:
        return "other" if worked else "gained"
    if not worked:
        return "other"
    return "lost" if change.new is not None and change.new.state.bad else "gone"


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
    counts = f"{len(found.lost)} lost, {len(found.gone)} gone, {len(found.gained)} gained"
    return "\n".join([*lines, "", counts])


def _named(found: Conformance) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items() if version)
    return f"{found.target} ({versions}): {found.line}"
