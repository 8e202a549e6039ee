"""The timings file: recorded seconds of tests and fixtures, their estimates for a run, and their update.

The file is sorted JSON with one entry on each line, so that the diff of an update is readable::

    {
      "version": 1,
      "tests": {
        "suites.c10d.test_stores.FileStoreTest.test_add": 0.031,
        ...
      },
      "fixtures": {
        "import suites.c10d.test_stores": 0.412,
        ...
      }
    }

A fixture's key is ``import module`` (importing it after torch has been imported), ``warm up module``
(``warm_up``), ``module`` (setUpModule and tearDownModule) or ``module.case`` (setUpClass and tearDownClass).
An entry for a test that is gone is ignored, and a test without an entry gets an estimate. A file that cannot
be read gives a warning and no timings; where the user named the file, or where machines that share a run have
to agree, it is an error.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.errors import UsageError
from harness.record import TestRecord
from harness.runner.scheduling.unit import Unit, split_id
from harness.runner.selection.suites_root import suites_root
from harness.runner.worker_process.warm_up import is_warm_up, warm_up_key

VERSION = 1
# Seconds for a test whose package has no entries: the time of a small multi-rank test on two cores.
BLIND_S = 0.05
# Digits after the decimal point: a millisecond is less than the noise of any run, and diffs stay short.
DIGITS = 3
# Seconds. No test takes a month; a larger number is a broken file, and infinity would break the sums.
LARGEST_S = 31 * 24 * 3600.0
# The weight of a new run. Four runs after a change the old time has a weight of one sixteenth, while a single
# slow run moves an entry only half-way.
NEWEST_WEIGHT = 0.5


def import_key(module: str) -> str:
    """The key in ``fixtures`` of the time that importing the module takes."""
    return f"import {module}"


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds by test id, and by fixture key; see the module's docstring."""

    tests: Mapping[str, float] = field(default_factory=dict)
    fixtures: Mapping[str, float] = field(default_factory=dict)

    def estimates(self, ids: Iterable[str]) -> dict[str, float]:
        """Seconds for each test id, without fixtures.

        A test without an entry gets the median of the entries of its class, else of its module, else of its
        package, and so on; else ``BLIND_S``, because other packages' times tell nothing about it. The
        estimate depends on the file and the id alone, not on which other tests there are.
        """
        return {
            test_id: BLIND_S if seconds is None else seconds
            for test_id, seconds in self._of_each(ids, _around).items()
        }

    def recorded(self, ids: Iterable[str]) -> dict[str, float]:
        """Seconds for each test id that has an entry, or else the median of those of its class or module.

        Its package's entries are no knowledge: what a run has seen of its tests tells more.
        """
        found = self._of_each(ids, lambda test_id: itertools.islice(_around(test_id), 2))
        return {test_id: seconds for test_id, seconds in found.items() if seconds is not None}

    def _of_each(self, ids: Iterable[str], around: Callable[[str], Iterable[str]]) -> dict[str, float | None]:
        """A test's own entry, else the median of the first of the names ``around`` it that has entries."""
        known = sorted(self.tests)
        median = functools.cache(lambda prefix: self._median(prefix, known))

        def near(test_id: str) -> float | None:
            return next((s for s in map(median, around(test_id)) if s is not None), None)

        return {i: self.tests[i] if i in self.tests else near(i) for i in ids}

    def over(self, seed: Timings) -> Timings:
        """These timings, and those of ``seed`` where they have no entry."""
        return Timings({**seed.tests, **self.tests}, {**seed.fixtures, **self.fixtures})

    def expect(self, units: Iterable[Unit]) -> tuple[Unit, ...]:
        """The units with ``expected_s`` filled in from ``estimates``."""
        units = tuple(units)
        seconds = self.estimates(unit.id for unit in units)
        return tuple(replace(unit, expected_s=seconds[unit.id]) for unit in units)

    def fixtures_of(self, test_id: str) -> tuple[str, ...]:
        """The keys of the file's fixtures whose names are part of the test id, outermost first."""
        return tuple(
            key
            for prefix in reversed(tuple(_around(test_id)))
            for key in (import_key(prefix), warm_up_key(prefix), prefix)
            if key in self.fixtures
        )

    def _median(self, prefix: str, known: Sequence[str]) -> float | None:
        first = bisect.bisect_left(known, prefix + ".")
        last = bisect.bisect_left(known, prefix + "/")  # "/" follows "." in ASCII: the end of what is below
        return _middle(self.tests[key] for key in known[first:last]) if first < last else None


def _around(test_id: str) -> Iterator[str]:
    """Yields the names of a test's class, module and packages, the class first."""
    name, _ = split_id(test_id)
    while name:
        yield name
        name = name.rpartition(".")[0]


def merge(old: Timings, runs: Iterable[Timings]) -> Timings:
    """``old`` updated by ``runs``, oldest first, as an exponentially weighted mean.

    Each run has the weight ``NEWEST_WEIGHT`` against all runs before it. An entry that a run did not measure
    stays, so that a run of one suite does not remove the others (``pruned`` removes entries).
    """
    tests, fixtures = dict(old.tests), dict(old.fixtures)
    for run in runs:
        _blend(tests, run.tests)
        _blend(fixtures, run.fixtures)
    return Timings(tests, fixtures)


def _blend(entries: dict[str, float], newer: Mapping[str, float]) -> None:
    for key, seconds in newer.items():
        before = entries.get(key, seconds)
        entries[key] = round(before + NEWEST_WEIGHT * (seconds - before), DIGITS)


def of_record(record: TestRecord) -> Timings:
    """The seconds of a test and of the fixtures that it set up; none where it failed, which says nothing.

    ValueError where a number is none of seconds.
    """
    if not record.ok:
        return Timings()
    return Timings(
        _as_seconds({record.id: record.duration_s}), _as_seconds(dict(record.extra.get("fixtures_s", {})))
    )


def _as_seconds(entries: Mapping[str, float]) -> dict[str, float]:
    for key, seconds in entries.items():
        if not 0 <= seconds <= LARGEST_S:
            raise ValueError(f"{key}: {seconds!r} is not a number of seconds")
    return {str(key): float(seconds) for key, seconds in entries.items()}


def pooled(parts: Iterable[Timings]) -> Timings:
    """The timings of one run from its parts (shards, repeats): the median where several measured a test.

    Of a warm-up it is the longest: the others are the beginnings of it.
    """
    parts = tuple(parts)
    fixtures = _medians(p.fixtures for p in parts)
    for key in filter(is_warm_up, fixtures):
        fixtures[key] = max(p.fixtures.get(key, 0.0) for p in parts)
    return Timings(_medians(p.tests for p in parts), fixtures)


def _medians(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    samples: dict[str, list[float]] = {}
    for part in parts:
        for key, seconds in part.items():
            samples.setdefault(key, []).append(seconds)
    return {key: _middle(values) for key, values in samples.items()}


def _middle(values: Iterable[float]) -> float:
    from statistics import median  # which imports decimals and fractions, for few runs

    return median(values)


def pruned(timings: Timings, ids: Iterable[str]) -> Timings:
    """The timings with only the entries of these tests and of their fixtures."""
    ids = set(ids)
    needed = {key for test_id in ids for key in timings.fixtures_of(test_id)}
    return Timings(
        {key: seconds for key, seconds in timings.tests.items() if key in ids},
        {key: seconds for key, seconds in timings.fixtures.items() if key in needed},
    )


def without_gone(timings: Timings, there: Mapping[str, Collection[str]]) -> Timings:
    """The timings without tests that are gone; ``there`` has the ids of all tests of some modules.

    Entries of other modules stay, and so do those of fixtures.
    """
    ids = {test_id for each in there.values() for test_id in each}
    tests = {
        test_id: seconds
        for test_id, seconds in timings.tests.items()
        if test_id in ids or not any(name in there for name in _around(test_id))
    }
    return Timings(tests, timings.fixtures)


def default_path() -> Path:
    """``timings.json`` of the suites; it need not exist."""
    return suites_root() / "suites" / "timings.json"


def load(path: Path) -> tuple[Timings, str | None]:
    """The timings in a file, and a warning of one line where the file exists and cannot be used.

    Never raises. A missing file gives no timings and no warning, a broken one no timings and a warning.
    """
    try:
        return parse(path.read_text(encoding="utf-8")), None
    except FileNotFoundError:
        return Timings(), None
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        return Timings(), f"{path}: no timings used: {reason}"


def load_for(named: str | None, *, sharded: bool) -> tuple[Timings, str | None]:
    """The timings for a run and the warning of ``load``, from the file that was ``named``, else the default.

    The default file need not exist. UsageError where a named file is missing or broken, and in a sharded run
    where the default file is broken: without it, this machine would compute other shards than the others.
    """
    path = Path(named) if named is not None else default_path()
    timings, warning = load(path)
    if named is not None and warning is None and not os.path.exists(path):
        warning = f"{path}: no such file"
    if warning is not None and (named is not None or sharded):
        option = "--timings " if named is not None else ""
        raise UsageError(f"{option}{warning}; tools/update_timings.py writes such files")
    return timings, warning


def parse(text: str) -> Timings:
    """The timings in a file's text; ValueError, which tells what is wrong, where it is no timings file."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep for a timings file") from None
    if not isinstance(value, dict) or not isinstance(value.get("version"), int):
        raise ValueError("not a timings file: no version")
    if value["version"] != VERSION:
        raise ValueError(f"version {value['version']}; this harness reads version {VERSION}")
    return Timings(_seconds(value, "tests"), _seconds(value, "fixtures"))


def _seconds(value: Mapping[str, object], name: str) -> dict[str, float]:
    entries = value.get(name, {})
    if not isinstance(entries, dict):
        raise ValueError(f"{name} is not a table of seconds")
    for key, seconds in entries.items():
        number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not number or not 0 <= seconds <= LARGEST_S:
            raise ValueError(f"{name}: {key}: {seconds!r} is not a number of seconds")
    return {key: float(seconds) for key, seconds in entries.items()}


def dumps(timings: Timings) -> str:
    """The file's text: sorted, one entry on each line, rounded to milliseconds."""

    def table(entries: Mapping[str, float]) -> dict[str, float]:
        return {key: round(entries[key], DIGITS) for key in sorted(entries)}

    value = {"version": VERSION, "tests": table(timings.tests), "fixtures": table(timings.fixtures)}
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def keep(
    path: Path, records: Iterable[TestRecord], there: Mapping[str, Collection[str]] | None = None
) -> None:
    """Merges the times of a run into the kept ones, for the order of the next run on this machine.

    ``there`` has the ids of all tests of modules that the run has imported: what is kept of others in them is
    of tests that are gone.
    A file that cannot be read begins anew. One that cannot be written stays as it is, and so it does where a
    record has a number that is none of seconds: the next run estimates.
    """
    with contextlib.suppress(OSError, ValueError):
        run = pooled(of_record(record) for record in records)
        if run.tests:
            save(without_gone(merge(load(path)[0], [run]), there or {}), path)


def save(timings: Timings, path: Path) -> None:
    """Replaces the file atomically; OSError where it cannot be written."""
    import tempfile  # takes 5 ms, and the controller only loads

    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        # An id with a lone surrogate, which UTF-8 lacks, is written with JSON's escape for it.
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(dumps(timings))
        os.chmod(temporary, 0o644)  # mkstemp makes it 0600, but the file is part of the repository
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
