"""The fast path of pooled ranks: collects the reports of a test in which every rank passes without output.

``await_passes`` reads reports and nothing else. Anything else (a failure, output, a rank's death, the
deadline, Ctrl-C) ends it at once, and the supervisor continues with the bytes that were read so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from harness.communication import call_log
from harness.errors import ProtocolError
from harness.outcomes import RankOutcome, Status
from harness.protocol import Report, decode
from harness.ranks.processes.rank_set import RankSet
from harness.wire import only_frame, read_available


@dataclass(slots=True)
class CollectedReports:
    """The bytes that were read from the ranks' channels, by rank; the supervisor processes them first.

    ``outcomes`` are all ranks' outcomes in rank order where all passed, else None. ``interrupted`` is the
    time of Ctrl-C in seconds on the monotonic clock.
    """

    data: dict[int, bytearray] = field(default_factory=dict)
    outcomes: tuple[RankOutcome, ...] | None = None
    interrupted: float | None = None


def await_passes(ranks: RankSet, until: float) -> CollectedReports:
    """Reads reports until all ranks have passed, anything else happens, or ``until`` (monotonic seconds)."""
    heard = CollectedReports()
    try:
        passed = _passes(ranks, until, heard)
    except KeyboardInterrupt:
        heard.interrupted = monotonic()
        return heard
    if passed is not None:
        heard.outcomes = tuple(ranks.located(passed[rank]) for rank in range(ranks.world_size))
    return heard


def _passes(ranks: RankSet, until: float, heard: CollectedReports) -> dict[int, RankOutcome] | None:
    poll = ranks.poller()
    awaited = {link.channel.fileno(): link for link in ranks.links}
    passed: dict[int, RankOutcome] = {}
    while awaited:
        ready = poll.poll(max(0.0, until - monotonic()) * 1000)
        if not ready:
            return None
        for descriptor, _ in ready:
            link = awaited.pop(descriptor, None)
            if link is None or (data := read_available(descriptor)) is None:
                return None
            rank = link.rank
            heard.data[rank] = bytearray(data)
            outcome = _passed(
                data,
                rank,
                ranks.turn,
                order=len(passed),
                at_s=monotonic(),
                pid=ranks.pids[rank],
                calls=call_log.read(link.log),
            )
            if outcome is None:
                return None
            passed[rank] = outcome
    # Ranks write their output before their reports and nothing after them, so one last poll is enough.
    return None if poll.poll(0) else passed


def _passed(data: bytes, rank: int, turn: int, **known: Any) -> RankOutcome | None:
    """The rank's outcome, with ``known`` fields, where ``data`` is one report, of a pass of this test."""
    frame = only_frame(data)
    try:
        message = decode(frame, **known) if frame is not None else None
    except ProtocolError:
        return None
    if not isinstance(message, Report) or message.turn != turn:
        return None
    outcome = message.outcome
    return outcome if outcome.rank == rank and outcome.status is Status.PASSED else None
