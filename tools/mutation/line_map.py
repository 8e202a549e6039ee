"""``LineMap``: which tests execute which lines of the mutated files, from what processes noted."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.impact import notes

# Another number is another form, which is not read.
VERSION = 1


@dataclass(frozen=True, slots=True)
class LineMap:
    """Which tests execute which lines.

    ``tests`` are those that passed while lines were noted, each with its seconds. ``lines`` has, by file and
    line, the tests that execute it, by their places in ``tests``. ``release`` is torch's.
    """

    release: str
    tests: Mapping[str, float]
    lines: Mapping[str, Mapping[int, Sequence[int]]]

    def executing(self, file: str, line: int) -> list[str]:
        """The tests that execute a line, the quickest first."""
        names = list(self.tests)
        found = [names[place] for place in self.lines.get(file, {}).get(line, ())]
        return sorted(found, key=lambda test: (self.tests[test], test))

    def write(self, path: Path) -> None:
        """Writes the map, compressed."""
        kept = {"version": VERSION, "release": self.release, "tests": self.tests, "lines": self.lines}
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt", encoding="utf-8") as stream:
            json.dump(kept, stream)


def read(path: Path) -> LineMap:
    """The map that ``write`` wrote. UsageError where it is none, or of another version."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            kept = json.load(stream)
        if kept["version"] != VERSION:
            raise UsageError(f"{path} has version {kept['version']}, not {VERSION}: record it again")
        lines = {file: {int(n): t for n, t in of.items()} for file, of in kept["lines"].items()}
        return LineMap(kept["release"], kept["tests"], lines)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{path} is no map of lines ({error}): record it by --record") from None


def merged(old: LineMap, new: LineMap) -> LineMap:
    """Both maps; of a test that is in both what ``new`` says. UsageError where their releases differ."""
    if old.release != new.release:
        raise UsageError(
            f"one map is of torch {old.release}, the other of {new.release}: record in another file"
        )
    tests = {**old.tests, **new.tests}
    places = {test: place for place, test in enumerate(tests)}
    lines: dict[str, dict[int, set[int]]] = {}
    for known, left_out in ((old, new.tests.keys()), (new, ())):
        kept = [None if test in left_out else places[test] for test in known.tests]
        for file, of in known.lines.items():
            for line, executing in of.items():
                found = {place for number in executing if (place := kept[number]) is not None}
                if found:
                    lines.setdefault(file, {}).setdefault(line, set()).update(found)
    return LineMap(old.release, tests, _ordered(lines))


def collect(directory: Path, files: Sequence[str], passed: Mapping[str, float], release: str) -> LineMap:
    """The map of what all processes noted in a directory, of the tests that passed."""
    places = {test: place for place, test in enumerate(passed)}
    lines: dict[str, dict[int, set[int]]] = {}
    for test, entry in notes.read(directory):
        if test in places:
            number, line = map(int, entry.split(":"))
            lines.setdefault(files[number], {}).setdefault(line, set()).add(places[test])
    return LineMap(release, dict(passed), _ordered(lines))


def _ordered(lines: Mapping[str, Mapping[int, set[int]]]) -> dict[str, dict[int, list[int]]]:
    return {file: {line: sorted(lines[file][line]) for line in sorted(lines[file])} for file in sorted(lines)}
