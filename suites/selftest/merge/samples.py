"""Parts of runs, as values, for the tests beside this file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.merge.parts import Part, part_of
from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.base import RunInfo
from harness.runner.journal import EarlierRun

ALL = ("m.T.test_1", "m.T.test_2", "m.T.test_3", "m.T.test_4")
_INFO = RunInfo(
    argv=("m", "--shard", "1/2"),
    cwd="/",
    seed=7,
    started_at=100.0,
    hostname="one",
    python="3.11.2",
    torch="2.13.0",
    platform="Linux",
    sources={"harness": "a", "m": "b"},
)


def record(name: str, status: Status = Status.PASSED, **fields: Any) -> TestRecord:
    """A record of the test of that number in ``ALL``."""
    return TestRecord(
        **{"id": f"m.T.test_{name}", "status": status, "worker": "1", "started_at": 101.0, **fields}
    )


def part(
    shard: tuple[int, int] | None,
    tests: str,
    records: Iterable[TestRecord],
    *,
    ended: int | None = 0,
    messages: tuple[str, ...] = (),
    **fields: Any,
) -> Part:
    """A part that was to run the tests of these numbers, such as "13"; ``fields`` are of its ``RunInfo``."""
    ids = tuple(f"m.T.test_{number}" for number in tests)
    selection = ALL if shard or len(ids) < len(ALL) else ()
    info = replace(_INFO, **{"tests": ids, "selection": selection, "shard": shard, **fields})
    directory = Path(f"part-{shard[0] if shard else 0}-{info.started_at:g}")
    return part_of(directory, EarlierRun(directory, info, tuple(records), ended, 0, messages))


def halves(*failed: str, **fields: Any) -> tuple[Part, Part]:
    """Two shards of ``ALL`` in which every test passed, except those of the numbers in ``failed``."""

    def of(number: int, tests: str) -> Part:
        records = [record(t, Status.FAILED if t in failed else Status.PASSED) for t in tests]
        return part((number, 2), tests, records, **fields)

    return of(1, "13"), of(2, "24")
