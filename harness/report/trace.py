"""``trace.json``: the run as Chrome trace events, for Perfetto (https://ui.perfetto.dev) and chrome://tracing.

Each worker is shown as a process. In it there is a thread for the tests and one for each rank, whose calls
are slices inside the rank's slice. Flows lead from rank to rank through a collective, in the order in which
they came to it, and from a send to its receive. The format is the "Trace Event Format": complete events
(``X``), flows (``s``, ``t``, ``f``) and metadata (``M``), times in microseconds since the first test began.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.communication.analysis.matching import messages, paired, rows
from harness.communication_call import Call
from harness.outcomes import Status
from harness.record import MOST_CALLS, RankRecord, TestRecord
from harness.report.base import QuietReporter, RunInfo
from harness.report.files import write_whole
from harness.report.naming import parse_id
from harness.report.summary import Summary

_MICROSECONDS = 1e6
_TESTS_THREAD = 0


Key = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of the timeline: a test, a rank or a call. Times are in seconds since the epoch.

    ``call`` says of which call it is the slice, where it is one; see ``_key``.
    """

    name: str
    category: str
    start_s: float
    end_s: float
    args: dict[str, Any]
    call: Key | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A slice of a thread with those that begin within it, in order."""

    pid: int
    thread: int
    piece: Slice
    within: tuple[Slice, ...] = ()

    def time_from(self, least_s: float) -> float | None:
        """The first time from ``least_s`` on at which this slice is the innermost; None where there is none.

        Viewers take a flow to be one of the innermost slice at its time.
        """
        time = max(least_s, self.piece.start_s)
        for inner in self.within:
            if inner.start_s <= time < inner.end_s:
                time = inner.end_s
        return time if time < self.piece.end_s else None


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
    placed: dict[Key, Placed] = {}
    for (pid, thread), slices in sorted(threads.items(), key=lambda item: item[0]):
        events += _thread_metadata(pid, thread)
        ordered = nested(slices)
        events += [_event(pid, thread, piece, base_s) for piece in ordered]
        placed.update(_calls(pid, thread, ordered))
    events += _flows(records, placed, base_s)
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


def _calls(pid: int, thread: int, ordered: Sequence[Slice]) -> Iterator[tuple[Key, Placed]]:
    """The slices of a thread's calls, by the call."""
    for number, piece in enumerate(ordered, 1):
        if piece.call is not None:
            within = []
            for other in ordered[number:]:
                if other.start_s >= piece.end_s:
                    break
                within.append(other)
            yield piece.call, Placed(pid, thread, piece, tuple(within))


def _flows(
    records: Iterable[TestRecord], placed: Mapping[Key, Placed], base_s: float
) -> list[dict[str, Any]]:
    """The events of all flows, of which each has a number of its own."""
    events: list[dict[str, Any]] = []
    number = 0
    for record in records:
        for category, name, calls in _meetings(record):
            ends = _ends(placed[_key(record, rank, call)] for rank, call in calls)
            if len(ends) < 2:
                continue
            number += 1
            for place, (at_s, slice_) in enumerate(ends):
                phase = "s" if place == 0 else "f" if place == len(ends) - 1 else "t"
                events.append(
                    {
                        "ph": phase,
                        "name": name,
                        "cat": category,
                        "id": number,
                        "pid": slice_.pid,
                        "tid": slice_.thread,
                        "ts": _microseconds(at_s - base_s),
                        **({"bp": "e"} if phase == "f" else {}),
                    }
                )
    return events


def _meetings(record: TestRecord) -> Iterator[tuple[str, str, list[tuple[int, Call]]]]:
    """What ranks had to do with each other: category, name, and ranks with their calls as the flow goes."""
    calls = {rank.rank: rank.calls for rank in record.ranks}
    for row in rows(calls):
        mine = sorted(row.calls.items(), key=lambda item: item[1].started_s)
        yield "collective", row.first.name, mine
    # Of ranks with calls before the first one on record, nobody can say which message is which.
    whole = {rank for rank, made in calls.items() if len(made) < MOST_CALLS}
    for channel, send, receive in paired(messages(calls)):
        if {channel.sender, channel.receiver} <= whole and channel.sender != channel.receiver:
            name = f"message from rank {channel.sender} to rank {channel.receiver}"
            yield "message", name, [(channel.sender, send), (channel.receiver, receive)]


def _ends(slices: Iterable[Placed]) -> list[tuple[float, Placed]]:
    """Where a flow touches slices, in order of time; a slice without a time for it is left out."""
    found: list[tuple[float, Placed]] = []
    for each in slices:
        time = each.time_from(found[-1][0] if found else 0.0)
        if time is not None:
            found.append((time, each))
    return found


def _slices(record: TestRecord) -> list[tuple[int, Slice]]:
    """The slices of one attempt with their threads: of the test, of its ranks and of their calls."""
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
    """The slices of a rank and its calls; one that never returned lasts until the rank's end.

    A rank's times are on the monotonic clock; the record has its offset to the epoch. A rank that sent no
    report lasts until the test's end, or if it crashed until its last known time.
    """
    epoch_s = record.started_at - record.started_s
    start_s = record.started_s if rank.started_s is None else rank.started_s
    end_s = start_s + rank.duration_s
    if rank.status in _UNREPORTED:
        end_s = max(end_s, record.started_s + record.duration_s)
    elif rank.status is Status.CRASHED:
        end_s = max([end_s, *(call.ended_s or call.started_s for call in rank.calls)])
    args = {"status": rank.status.value, "host": rank.host, "pid": rank.pid, "exit_code": rank.exit_code}
    found = [Slice(name, "rank", epoch_s + start_s, epoch_s + end_s, args)]
    for call in rank.calls:
        until_s = max(end_s if call.ended_s is None else call.ended_s, call.started_s)
        begins_s = epoch_s + call.started_s
        found.append(
            Slice(
                call.name,
                "collective",
                begins_s,
                epoch_s + until_s,
                _call_args(call),
                _key(record, rank.rank, call),
            )
        )
    return found


_UNREPORTED = frozenset({Status.ENDED, Status.TIMED_OUT, Status.DEADLOCKED})


def _key(record: TestRecord, rank: int, call: Call) -> Key:
    """What tells a call from all others of a run."""
    return (id(record), rank, id(call))


def _call_args(call: Call) -> dict[str, Any]:
    """What a viewer shows of a call."""
    s = call.signature
    return {
        "group": s.group_text,
        "number": call.number,
        "reduce op": s.reduce_op,
        "root": s.root,
        "peer": s.peer,
        "tag": s.tag or None,
        "tensors": s.tensors,
        "key": s.key,
        "place": call.place,
        "came back": call.ended_s is not None,
    }


def _event(pid: int, thread: int, piece: Slice, base_s: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": piece.name,
        "cat": piece.category,
        "pid": pid,
        "tid": thread,
        "ts": _microseconds(piece.start_s - base_s),
        # Of rounded times, so that slices that nest do so after rounding.
        "dur": round(
            max(0.0, _microseconds(piece.end_s - base_s) - _microseconds(piece.start_s - base_s)), 3
        ),
        "args": {name: value for name, value in piece.args.items() if value not in (None, "")},
    }


def _microseconds(seconds: float) -> float:
    return round(seconds * _MICROSECONDS, 3)


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
