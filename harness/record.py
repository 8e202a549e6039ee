"""The record of a finished test and its JSON schema: a line of the journal and of ``results.jsonl``.

The schema is versioned (``SCHEMA``); a reader refuses a newer one and fills fields that an older one lacks.
The calls of ranks are columns, of whose signatures the record has a table (``call_columns.py``).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.call_columns import SignatureTable, calls_of, columns, signatures_of
from harness.communication_call import Call, Signature, call_from_json
from harness.errors import ProtocolError
from harness.field_checks import checked
from harness.outcomes import Status

SCHEMA = 3
# Of a rank's calls, those that stand in its record: the last ones, enough for a page of the report.
MOST_CALLS = 64


@dataclass(frozen=True, slots=True)
class RankRecord:
    """The outcome of one rank in the form that reports show. Times in seconds, memory in bytes.

    ``started_s`` and the calls' times are on the monotonic clock of the process that ran the test. ``calls``
    are the last ``MOST_CALLS``, and none of a test that passed, unless the run writes a timeline;
    ``calls_made`` is how many the rank's log had. ``host`` names the rank's host where ranks ran on several.
    """

    rank: int
    status: Status
    duration_s: float = 0.0
    started_s: float | None = None
    exit_code: int | None = None
    peak_memory: int | None = None
    error: str = ""
    stack: str = ""
    output: str = ""
    log: str | None = None
    pid: int | None = None
    calls: tuple[Call, ...] = ()
    host: str = ""
    calls_made: int = 0


@dataclass(frozen=True, slots=True)
class SubtestRecord:
    """One failing or skipped sub-test: its description as unittest prints it, status, text, and ranks."""

    description: str
    status: Status
    details: str = ""
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TestRecord:
    """One attempt at one test.

    ``mode`` is the rank mode that it ran in ("fresh", "pooled", "threads", "local", "external"), empty for a
    test without ranks.

    ``id`` is the unittest id; ``status`` a value of ``harness.outcomes.Status``; ``reason`` one line
    (skip reason or what went wrong); ``details`` the failure text in full, root cause first;
    ``output`` what the test printed in its worker (failing tests only); ``started_at`` seconds since the
    epoch; ``started_s`` on the monotonic clock; ``attempt`` 1 for the first; ``repeat`` 1 for the first of
    ``--repeat``; ``flaky`` is set on the passing attempt of a test that failed before in this run.
    """

    __test__ = False  # not a test class, whatever pytest thinks of the name

    id: str
    status: Status
    duration_s: float = 0.0
    started_at: float = 0.0
    started_s: float = 0.0
    worker: str = ""
    attempt: int = 1
    repeat: int = 1
    flaky: bool = False
    seed: int | None = None
    world_size: int | None = None
    mode: str = ""
    reason: str = ""
    details: str = ""
    output: str = ""
    warnings: tuple[str, ...] = ()
    file: str = ""
    line: int = 0
    ranks: tuple[RankRecord, ...] = ()
    subtests: tuple[SubtestRecord, ...] = ()
    subtests_run: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the test counts as not failed."""
        return self.status in (Status.PASSED, Status.SKIPPED, Status.XFAILED)


_TEST_FIELDS = tuple(f.name for f in dataclasses.fields(TestRecord))
_RANK_FIELDS = tuple(f.name for f in dataclasses.fields(RankRecord))
_SUBTEST_FIELDS = tuple(f.name for f in dataclasses.fields(SubtestRecord))


def to_json(record: TestRecord) -> dict[str, Any]:
    """The record as JSON-able values, with its schema number; lossless with ``from_json``."""
    value = {name: getattr(record, name) for name in _TEST_FIELDS}
    value["status"] = record.status.value
    table = SignatureTable()
    value["ranks"] = [_rank_to_json(rank, table) for rank in record.ranks]
    value["signatures"] = table.columns()
    value["subtests"] = [_subtest_to_json(subtest) for subtest in record.subtests]
    return {"schema": SCHEMA, "kind": "test", **value}


def _rank_to_json(rank: RankRecord, table: SignatureTable) -> dict[str, Any]:
    value = {name: getattr(rank, name) for name in _RANK_FIELDS}
    value["status"] = rank.status.value
    value["calls"] = columns(rank.calls, table)
    return value


def _subtest_to_json(subtest: SubtestRecord) -> dict[str, Any]:
    return {
        "description": subtest.description,
        "status": subtest.status.value,
        "details": subtest.details,
        "ranks": subtest.ranks,
    }


def from_json(value: Mapping[str, Any]) -> TestRecord:
    """The record of a line; ProtocolError where the schema is newer or a field is of the wrong kind."""
    try:
        if value.get("schema", 0) > SCHEMA:
            raise ProtocolError(f"results of schema {value['schema']}; this harness reads up to {SCHEMA}")
        fields = checked(TestRecord, {name: value[name] for name in _TEST_FIELDS if name in value})
        fields["status"] = Status(fields["status"])
        signatures = signatures_of(value.get("signatures", {}))
        fields["ranks"] = tuple(_rank(rank, signatures) for rank in fields.get("ranks", ()))
        fields["subtests"] = tuple(_subtest(subtest) for subtest in fields.get("subtests", ()))
        fields["warnings"] = tuple(fields.get("warnings", ()))
        return TestRecord(**fields)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"not a test record: {error!r}") from error


def _rank(value: Mapping[str, Any], signatures: Mapping[int, Signature]) -> RankRecord:
    known = {name: value[name] for name in _RANK_FIELDS if name in value}
    checked(RankRecord, known)
    return RankRecord(**{**known, "status": Status(value["status"]), "calls": _calls(value, signatures)})


def _calls(rank: Mapping[str, Any], signatures: Mapping[int, Signature]) -> tuple[Call, ...]:
    """A rank's calls; schema 2 wrote an object for each, schema 1 a list under another name."""
    calls = rank.get("calls", ())
    if isinstance(calls, dict):
        return calls_of(calls, signatures)
    return tuple(map(call_from_json, calls)) or tuple(map(_call_of_schema_1, rank.get("collectives", ())))


def _call_of_schema_1(values: Sequence[Any]) -> Call:
    """The call that schema 1 wrote as a list: operation, group, number, start and end."""
    operation, group, number, started, ended = values
    value = {"sequence": number, "number": number, "started_s": started, "ended_s": ended}
    checked(Call, value)
    return Call(Signature(operation, group), **value)


def _subtest(value: Mapping[str, Any]) -> SubtestRecord:
    known = checked(SubtestRecord, {name: value[name] for name in _SUBTEST_FIELDS if name in value})
    ranks = tuple(value.get("ranks", ()))
    return SubtestRecord(**{**known, "status": Status(value["status"]), "ranks": ranks})


def shifted(record: TestRecord, seconds: float) -> TestRecord:
    """The record of another host, with ``seconds`` added to its times on the monotonic clock."""
    if not seconds:
        return record
    return replace(
        record,
        started_s=record.started_s + seconds,
        ranks=tuple(_rank_shifted(rank, seconds) for rank in record.ranks),
    )


def _rank_shifted(rank: RankRecord, seconds: float) -> RankRecord:
    started_s = None if rank.started_s is None else rank.started_s + seconds
    return replace(rank, started_s=started_s, calls=tuple(call.shifted(seconds) for call in rank.calls))


def on_host(record: TestRecord, host: str) -> TestRecord:
    """The record of a test whose process was on a host, as its ranks were unless they say otherwise."""
    ranks = tuple(rank if rank.host else replace(rank, host=host) for rank in record.ranks)
    return replace(record, ranks=ranks, extra={**record.extra, "host": host})


def dumps(record: TestRecord) -> str:
    """The record as one line of JSON without its newline."""
    return json.dumps(to_json(record), ensure_ascii=False, separators=(",", ":"))
