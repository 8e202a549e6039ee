"""``merged``: which results of all parts count, what is absent, and the description of the whole run; pure.

Where several parts have a test (a shard that was started again, or run again by ``--last-failed``), its
newest results count. Failures in the older ones stay, as earlier attempts: a test that passes after them is
flaky.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.merge.parts import Part
from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.base import RunInfo
from harness.report.text import count
from harness.runner.exit_codes import ExitCode
from harness.runner.scheduling.plan import Plan, Policy

# Options of a shard that the whole run has not.
_OF_A_SHARD = frozenset({"shard", "report_dir", "resume", "last_failed"})


@dataclass(frozen=True, slots=True)
class Absent:
    """Tests without a result: ``where`` is why, and ``shards`` the shards of which there is no directory."""

    where: str
    tests: tuple[str, ...]
    shards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Merged:
    """The whole run.

    ``records`` are in the order in which the attempts ended, by the clocks of their hosts.
    """

    info: RunInfo
    records: tuple[TestRecord, ...]
    absent: tuple[Absent, ...]
    messages: tuple[str, ...]
    duration_s: float
    flaky_fails: bool


def merged(parts: Sequence[Part]) -> Merged:
    """The whole run of parts that are of one run, oldest first."""
    records = results(parts)
    info = replace(_info(parts), total=len(parts[0].selection) * max(1, parts[0].info.repeats))
    return Merged(
        info,
        records,
        absences(parts, records),
        tuple(dict.fromkeys(message for part in parts for message in part.run.messages)),
        max(map(_duration_s, parts)),
        parts[0].info.options.get("flaky") == "fail",
    )


def results(parts: Sequence[Part]) -> tuple[TestRecord, ...]:
    """The attempts that count, each once, with a worker's name that no other part has."""
    found: dict[tuple[str, int], list[list[TestRecord]]] = {}
    seen: set[tuple[str, int, int, float]] = set()
    wanted = frozenset(parts[0].selection)
    for part in reversed(parts):  # a part that was resumed elsewhere is there twice: its newest copy counts
        of_part: dict[tuple[str, int], list[TestRecord]] = {}
        for record in part.records:
            same = (record.id, record.repeat, record.attempt, record.started_at)
            if record.id in wanted and same not in seen:
                seen.add(same)
                of_part.setdefault((record.id, record.repeat), []).append(_of(part, record, len(parts) > 1))
        for key, records in of_part.items():
            found.setdefault(key, []).insert(0, sorted(records, key=lambda record: record.attempt))
    attempts = [record for groups in found.values() for record in _attempts(groups)]
    return tuple(sorted(attempts, key=lambda record: (record.started_at + record.duration_s, record.id)))


def _of(part: Part, record: TestRecord, several: bool) -> TestRecord:
    return replace(record, worker=f"{part.number}.{record.worker}") if several and record.worker else record


def _attempts(groups: Sequence[Sequence[TestRecord]]) -> Iterable[TestRecord]:
    """The attempts at one repeat of a test: the newest part's, after what failed in the older ones."""
    if len(groups) == 1:
        yield from groups[0]
        return
    before = [record for group in groups[:-1] for record in group if not record.ok]
    for number, record in enumerate([*before, *groups[-1]], 1):
        flaky = record.flaky or (bool(before) and record.status is Status.PASSED)
        yield replace(record, attempt=number, flaky=flaky)


def absences(parts: Sequence[Part], records: Iterable[TestRecord]) -> tuple[Absent, ...]:
    """The tests of the whole run that have no result, by the shard that was to run them."""
    info, selection = parts[0].info, parts[0].selection
    plan = Plan(selection, Policy(info.repeats or 1, info.reruns), records)
    owed = {test_id: None for test_id in selection if plan.owes(test_id)}
    found = []
    by_number: dict[int, list[Part]] = {}
    for part in parts:
        by_number.setdefault(part.number, []).append(part)
    for number in sorted(by_number):
        planned = {test_id for part in by_number[number] for test_id in part.info.tests}
        tests = tuple(test_id for test_id in owed if test_id in planned)
        if tests:
            found.append(Absent(_of_part(by_number[number][-1]), tests))
            owed = {test_id: None for test_id in owed if test_id not in planned}
    total = info.shard[1] if info.shard else 1
    missing = tuple(f"{number}/{total}" for number in range(1, total + 1) if number not in by_number)
    if owed:
        found.append(Absent(_nowhere(missing), tuple(owed), missing))
    return tuple(found)


def _of_part(part: Part) -> str:
    ends: dict[int | None, str] = {
        None: "which did not come to its end",
        ExitCode.INTERRUPTED: "which was interrupted",
    }
    how = ends.get(part.run.ended, f"which ended with exit code {part.run.ended}")
    return f"of {part.name}, {how}"


def _nowhere(missing: Sequence[str]) -> str:
    if not missing:
        return "that no part was to run: were the shards cut by different --timings?"
    shards = "shard" if len(missing) == 1 else "shards"
    return f"of {shards} {', '.join(missing)}, of which there is no directory"


def absent_text(absent: Absent, shown: int) -> str:
    """One line that names what is absent, with the first ``shown`` tests."""
    more = f", and {len(absent.tests) - shown} more" if len(absent.tests) > shown else ""
    tests = count(len(absent.tests), "test")
    return f"absent: {tests} {absent.where}: {', '.join(absent.tests[:shown])}{more}"


def _info(parts: Sequence[Part]) -> RunInfo:
    """What is said of the whole run: what all parts agree on, and the rest by the first part."""
    first = parts[0].info
    infos = [part.info for part in parts]
    return replace(
        first,
        argv=without_shard(first.argv),
        names={test_id: name for info in infos for test_id, name in info.names.items()},
        tests=parts[0].selection,
        selection=(),
        sources={name: digest for info in infos for name, digest in info.sources.items()},
        shard=None,
        options={name: value for name, value in first.options.items() if name not in _OF_A_SHARD},
        jobs=max(info.jobs for info in infos),
        hostname=_all(info.hostname for info in infos),
        platform=_all(info.platform for info in infos),
        started_at=min(info.started_at for info in infos),
        shuffle=first.shuffle if len({info.shuffle for info in infos}) == 1 else None,
    )


def _all(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(value for value in values if value))


def without_shard(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line without ``--shard``, ``--report-dir`` and ``--resume``, which belong to a part."""
    words, given = [], iter(argv)
    for word in given:
        if word in ("--shard", "--report-dir"):
            next(given, None)
        elif not word.startswith(("--shard=", "--report-dir=", "--resume")):
            words.append(word)
    return tuple(words)


def _duration_s(part: Part) -> float:
    """Seconds from the start of a part to the end of its last test."""
    ends: Mapping[float, None] = {record.started_at + record.duration_s: None for record in part.records}
    return max(0.0, max(ends, default=part.info.started_at) - part.info.started_at)
