"""``trace.json``: the run as Chrome trace events, for Perfetto (https://ui.perfetto.dev) and chrome://tracing.

Each worker is shown as a process. In it there is a thread for the tests and one for each rank, whose
collectives are slices inside the rank's slice. The format is the "Trace Event Format": complete events
(``X``) and metadata (``M``), times in microseconds since the first test began.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.record import RankRecord, TestRecord
from harness.report.base import QuietReporter, RunInfo
from harness.report.files import write_whole
from harness.report.naming import parse_id
from harness.report.summary import Summary

_MICROSECONDS = 1e6
_TESTS_THREAD = 0


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of the timeline: a test, a rank or a collective. Times are in seconds since the epoch."""

    name: str
    category: str
    start_s: float
    end_s: float
    args: dict[str, Any]


class TraceReporter(QuietReporter):
    """Writes the file when the run is over."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def finish(self, summary: Summary) -> None:
        """Writes every attempt of ``summary``."""
        write_whole(self._path, trace_text(self.info, summary))


def trace_text(info: RunInfo, summary: Summary) -> str:
    """The file's content; pure."""
    records = summary.records
    base_s = min((r.started_at for r in records), default=0.0)
    workers = sorted({r.worker for r in records}, key=_natural)
    pids = {worker: number for number, worker in enumerate(workers, 1)}
    events = [event for worker in workers for event in _worker_metadata(worker, pids[worker])]
    threads: dict[tuple[int, int], list[Slice]] = {}
    for record in records:
        for thread, piece in _slices(record):
            threads.setdefault((pids[record.worker], thread), []).append(piece)
    for (pid, thread), slices in sorted(threads.items(), key=lambda item: item[0]):
        events += _thread_metadata(pid, thread)
        events += [_event(pid, thread, piece, base_s) for piece in nested(slices)]
    other = {"command": info.started_as, "host": info.hostname, "seed": info.seed, "shuffle": info.shuffle}
    value = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}
    return json.dumps(value, separators=(",", ":"))


def nested(slices: Iterable[Slice]) -> list[Slice]:
    """The slices of one thread in order of their start, cut so that they nest: viewers cannot show overlap.

    A slice that begins inside an earlier one and ends after it (an asynchronous collective, say) is cut at
    the end of the earlier one.
    """
    placed: list[Slice] = []
    open_ones: list[Slice] = []
    for piece in sorted(slices, key=lambda s: (s.start_s, -s.end_s)):
        while open_ones and open_ones[-1].end_s <= piece.start_s:
            open_ones.pop()
        if open_ones and piece.end_s > open_ones[-1].end_s:
            piece = replace(piece, end_s=open_ones[-1].end_s)
        placed.append(piece)
        open_ones.append(piece)
    return placed


def _slices(record: TestRecord) -> list[tuple[int, Slice]]:
    """The slices of one attempt with their threads: of the test, of its ranks and of their collectives."""
    args = {
        "id": record.id,
        "status": record.status.value,
        "reason": record.reason,
        "attempt": record.attempt,
        "repeat": record.repeat,
        "seed": record.seed,
        "ranks": record.world_size,
    }
    name = parse_id(record.id).method
    test = Slice(name, "test", record.started_at, record.started_at + record.duration_s, args)
    found = [(_TESTS_THREAD, test)]
    for rank in record.ranks:
        found += [(rank.rank + 1, piece) for piece in _rank_slices(record, rank, name)]
    return found


def _rank_slices(record: TestRecord, rank: RankRecord, name: str) -> list[Slice]:
    """The slices of a rank and its collectives; one that never returned lasts until the rank's end.

    A rank's times are on the monotonic clock; the record has its offset to the epoch.
    """
    epoch_s = record.started_at - record.started_s
    start_s = record.started_s if rank.started_s is None else rank.started_s
    end_s = start_s + rank.duration_s
    args = {"status": rank.status.value, "pid": rank.pid, "exit_code": rank.exit_code}
    found = [Slice(name, "rank", epoch_s + start_s, epoch_s + end_s, args)]
    for call in rank.calls:
        name = call.name
        until_s = max(end_s if call.ended_s is None else call.ended_s, call.started_s)
        args = {
            "group": call.signature.group_text,
            "place": call.place,
            "came back": call.ended_s is not None,
        }
        found.append(Slice(name, "collective", epoch_s + call.started_s, epoch_s + until_s, args))
    return found


def _event(pid: int, thread: int, piece: Slice, base_s: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": piece.name,
        "cat": piece.category,
        "pid": pid,
        "tid": thread,
        "ts": round((piece.start_s - base_s) * _MICROSECONDS, 3),
        "dur": round(max(0.0, piece.end_s - piece.start_s) * _MICROSECONDS, 3),
        "args": {name: value for name, value in piece.args.items() if value not in (None, "")},
    }


def _worker_metadata(worker: str, pid: int) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"worker {worker}".strip()}},
        {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}},
    ]


def _thread_metadata(pid: int, thread: int) -> list[dict[str, Any]]:
    name = "tests" if thread == _TESTS_THREAD else f"rank {thread - 1}"
    return [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": {"name": name}},
        {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": thread, "args": {"sort_index": thread}},
    ]


def _natural(worker: str) -> tuple[str, int, str]:
    """The sort key of a worker's name that puts ``w2`` before ``w10``."""
    digits = "".join(c for c in worker if c.isdigit())
    return (worker.rstrip("0123456789"), int(digits) if digits else -1, worker)
