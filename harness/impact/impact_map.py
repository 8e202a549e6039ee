"""``ImpactMap``: the files that each test executes, in one compressed file."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UsageError

# Another number is another form, which is not read.
VERSION = 1
# Hexadecimal digits of a file's digest.
DIGITS = 8


@dataclass(frozen=True, slots=True)
class ImpactMap:
    """What tests execute, by names of files.

    ``torch`` is the release of torch. ``ran`` has, by test, the files of which a function ran in the test or
    its fixtures; ``imported`` those whose modules were executed by then in its processes, apart from
    ``before``, which were imported before any test. ``digests`` are those of the files when it was recorded.
    """

    torch: str = ""
    ran: Mapping[str, frozenset[str]] = field(default_factory=dict)
    imported: Mapping[str, frozenset[str]] = field(default_factory=dict)
    before: frozenset[str] = frozenset()
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> frozenset[str]:
        """All files that the map knows."""
        return frozenset().union(self.before, *self.ran.values(), *self.imported.values())

    def write(self, path: Path) -> None:
        """Writes the map; the same map is always the same file."""
        files = sorted(self.files)
        numbers = {file: number for number, file in enumerate(files)}

        def encoded(names: Iterable[str]) -> list[int]:
            found = sorted(numbers[name] for name in names)
            return [after - ahead for ahead, after in itertools.pairwise([0, *found])]

        kept = {
            "version": VERSION,
            "torch": self.torch,
            "files": files,
            "digests": [self.digests.get(file, "") for file in files],
            "before": encoded(self.before),
            "tests": {
                test: [encoded(self.ran[test]), encoded(self.imported.get(test, ()))]
                for test in sorted(self.ran)
            },
        }
        text = json.dumps(kept, separators=(",", ":"), ensure_ascii=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode(errors="surrogateescape"), mtime=0))


def read(path: Path) -> ImpactMap:
    """The map that ``write`` wrote; an empty one where there is none. UsageError where it is no map."""
    try:
        kept = json.loads(gzip.decompress(path.read_bytes()).decode(errors="surrogateescape"))
        if kept["version"] != VERSION:
            raise ValueError(f"version {kept['version']}, not {VERSION}")
        files: list[str] = kept["files"]

        def decoded(steps: Sequence[int]) -> frozenset[str]:
            return frozenset(files[number] for number in itertools.accumulate(steps))

        return ImpactMap(
            kept["torch"],
            {test: decoded(ran) for test, (ran, _) in kept["tests"].items()},
            {test: decoded(imported) for test, (_, imported) in kept["tests"].items()},
            decoded(kept["before"]),
            dict(zip(files, kept["digests"], strict=True)),
        )
    except FileNotFoundError:
        return ImpactMap()
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise UsageError(f"{path} is no map ({error}): remove it, and record it by --record-map") from None


def collect(
    entries: Iterable[tuple[str, str]],
    tests: Collection[str],
    name: Callable[[str], str | None],
    torch: str,
) -> ImpactMap:
    """The map of ``tests`` by the entries that a recorder noted, given what names files by their paths.

    An entry of a class or module is of its fixture, and counts for all of its tests.
    """
    ran: dict[str, set[str]] = {}
    imported: dict[str, set[str]] = {}
    names: dict[str, str | None] = {}
    for test, entry in entries:
        if entry[1:] not in names:
            names[entry[1:]] = name(entry[1:])
        file = names[entry[1:]]
        if file is not None:
            (ran if entry[0] == "r" else imported).setdefault(test, set()).add(file)
    before = frozenset(imported.pop("", ()))
    return ImpactMap(
        torch,
        {test: frozenset().union(*_of(test, ran)) for test in tests},
        {test: frozenset().union(*_of(test, imported)) - before for test in tests},
        before,
    )


def _of(test: str, found: Mapping[str, set[str]]) -> Iterable[set[str]]:
    """What was noted of a test, and of the fixtures of its class and its modules."""
    whole = test.partition("[")[0]
    ends = [number for number, letter in enumerate(whole) if letter == "."]
    return (found[key] for key in (test, *(test[:end] for end in ends)) if key in found)


def merged(old: ImpactMap, new: ImpactMap, there: Callable[[str], bool]) -> ImpactMap:
    """Both maps; of a test in both what ``new`` says. Tests of ``old`` that are not ``there`` are left out.

    What was recorded with another release of torch is left out, too.
    """
    kept = [test for test in old.ran if there(test)] if old.torch == new.torch else []
    return ImpactMap(
        new.torch,
        {**{test: old.ran[test] for test in kept}, **new.ran},
        {**{test: old.imported[test] for test in kept}, **new.imported},
        new.before | (old.before if kept else frozenset()),
        {**old.digests, **new.digests},
    )


def digests(files: Iterable[str], path: Callable[[str], Path]) -> dict[str, str]:
    """The digests of the files that can be read, by their names."""
    found = {}
    for file in files:
        try:
            found[file] = hashlib.sha256(path(file).read_bytes()).hexdigest()[:DIGITS]
        except OSError:
            continue
    return found
