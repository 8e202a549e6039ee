"""``ImpactMap``: the files that each test executes, in one compressed file.

The file is JSON in gzip (``zcat impact.json.gz``), and of one map always the same::

    {"version": 1, "torch": "2.13.0",
     "digests": {"suites/c10d/test_stores.py": "0b1f2c3d", "torch/functional.py": ...},  sorted
     "tests": {"suites.c10d.test_stores.FileStoreTest.test_add": [0, 1, 5], ...}}        sorted

A digest is the first digits of SHA-256. A test's files are numbers of ``digests``, each said by how much it
is over the one before: 0, 1 and 6 here.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import os
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UsageError

# Another number is another form, which is not read.
VERSION = 1
# Its name in a state directory, in a run's directory, and beside the suites.
NAME = "impact.json.gz"
# Hexadecimal digits of a file's digest.
DIGITS = 8


@dataclass(frozen=True, slots=True)
class ImpactMap:
    """By test, the names of the files of which a function ran in the test or its fixtures.

    ``torch`` is the release of torch, ``digests`` are those of the files when it was recorded.
    """

    torch: str = ""
    tests: Mapping[str, frozenset[str]] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Writes the map; the same map is always the same file."""
        tests = sorted(self.tests.items(), key=lambda each: each[0])
        numbers = {file: number for number, file in enumerate(sorted(self.digests))}
        kept = {
            "version": VERSION,
            "torch": self.torch,
            "digests": {file: self.digests[file] for file in numbers},
            "tests": {test: _steps(numbers[file] for file in files) for test, files in tests},
        }
        text = json.dumps(kept, separators=(",", ":"))
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.write_bytes(gzip.compress(text.encode(), mtime=0))
        os.replace(beside, path)  # so that nobody reads half of it


def _steps(numbers: Iterable[int]) -> list[int]:
    """How much each number is over the one before: small ones, which compress well."""
    return [after - before for before, after in itertools.pairwise([0, *sorted(numbers)])]


def read(path: Path) -> ImpactMap:
    """The map that ``write`` wrote; an empty one where there is none. UsageError where it is no map."""
    try:
        kept = json.loads(gzip.decompress(path.read_bytes()))
        if kept["version"] != VERSION:
            raise ValueError(f"version {kept['version']}, not {VERSION}")
        files = list(kept["digests"])
        tests = {
            test: frozenset(files[number] for number in itertools.accumulate(steps))
            for test, steps in kept["tests"].items()
        }
        return ImpactMap(kept["torch"], tests, kept["digests"])
    except FileNotFoundError:
        return ImpactMap()
    except (OSError, EOFError, zlib.error, LookupError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is no map ({error}): remove it, and record it by --record-map") from None


def collect(
    entries: Iterable[tuple[str, str]],
    tests: Collection[str],
    name: Callable[[str], str | None],
    digest: Callable[[str], str],
    torch: str,
) -> ImpactMap:
    """The map of ``tests`` by the entries that recorders noted.

    An entry is a test and a path; that of a class or module is of its fixture, and counts for all of its
    tests. A test without any is left out: it was not recorded. ``name`` gives the name of a path's file, None
    for one that is left out, and ``digest`` the digest of a file by its name.
    """
    found: dict[str, set[str]] = {}
    for test, path in entries:
        found.setdefault(test, set()).add(path)
    names = {path: name(path) for path in frozenset().union(*found.values())}
    executed = {}
    for test in tests:
        paths = {path for key in _keys(test) for path in found.get(key, ())}
        if files := frozenset(file for path in paths if (file := names[path]) is not None):
            executed[test] = files
    return ImpactMap(torch, executed, {file: digest(file) for file in _files(executed)})


def _keys(test: str) -> Iterable[str]:
    """A test's id, and the names of its class and its modules."""
    parts = test.partition("[")[0].split(".")
    return (test, *(".".join(parts[:end]) for end in range(1, len(parts))))


def _files(tests: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*tests.values())


def changed_since(known: ImpactMap, digest: Callable[[str], str]) -> frozenset[str]:
    """The files that have changed since the map was recorded; ``digest`` gives a file's digest now."""
    return frozenset(file for file, before in known.digests.items() if digest(file) != before)


def joined(maps: Iterable[ImpactMap]) -> ImpactMap:
    """One map of those of shards, oldest first, which are of one release of torch.

    A test that executed a file which a later shard found changed is left out: it is as good as not recorded.
    """
    whole = ImpactMap()
    for each in maps:
        both = whole.digests.keys() & each.digests.keys()
        changed = frozenset(file for file in both if whole.digests[file] != each.digests[file])
        whole = merged(whole, changed, each, lambda test: True)
    return whole


def merged(
    old: ImpactMap, changed: frozenset[str], new: ImpactMap, there: Callable[[str], bool]
) -> ImpactMap:
    """Both maps; of a test in both what ``new`` says.

    Of ``old``, tests are left out that are not ``there`` or executed a file that has ``changed`` since, and
    all where it is of another release of torch.
    """
    before = old.tests if old.torch == new.torch else {}
    kept = {test: files for test, files in before.items() if there(test) and not files & changed}
    tests, digests = {**kept, **new.tests}, {**old.digests, **new.digests}
    return ImpactMap(new.torch, tests, {file: digests[file] for file in _files(tests)})


def digest_of(path: Path) -> str:
    """The digest of a file; "" where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS]
    except OSError:
        return ""
