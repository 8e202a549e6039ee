"""The usual test of kept ranks: every rank passes, quietly. Then the supervisor is not needed at all.

``await_passes`` hears reports and nothing else. Whatever else happens (a failure, output, a death, the
deadline, Ctrl-C) ends it at once, and the supervisor goes on from there with what was heard so far.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from harness.communication import collective_log
from harness.errors import ProtocolError
from harness.outcomes import RankOutcome, Status
from harness.protocol import Report, decode
from harness.ranks.processes.rank_set import RankSet
from harness.wire import only_frame, read_available


@dataclass(slots=True)
class Heard:
    """What the ranks' channels carried: bytes by rank, which the supervisor takes as if it had read them.

    ``outcomes`` is every rank's, in the order of ranks, where all passed; else None. ``interrupted`` is when
    Ctrl-C came, in seconds on the monotonic clock.
    """

    data: dict[int, bytearray] = field(default_factory=dict)
    outcomes: tuple[RankOutcome, ...] | None = None
    interrupted: float | None = None


def await_passes(ranks: RankSet, until: float) -> Heard:
    """Listens until all ranks have passed, something else happens, or ``until`` (monotonic seconds)."""
    heard = Heard()
    try:
        passed = _passes(ranks, until, heard)
    except KeyboardInterrupt:
        heard.interrupted = time.monotonic()
        return heard
    if passed is not None:
        heard.outcomes = tuple(passed[rank] for rank in range(ranks.world_size))
    return heard


def _passes(ranks: RankSet, until: float, heard: Heard) -> dict[int, RankOutcome] | None:
    poll = ranks.attention()
    awaited = {link.channel.fileno(): link.rank for link in ranks.links}
    passed: dict[int, RankOutcome] = {}
    while awaited:
        ready = poll.poll(max(0.0, until - time.monotonic()) * 1000)
        if not ready:
            return None
        for descriptor, _ in ready:
            rank = awaited.pop(descriptor, None)
            if rank is None or (data := read_available(descriptor)) is None:
                return None
            heard.data[rank] = bytearray(data)
            outcome = _passed(
                data,
                rank,
                order=len(passed),
                at_s=time.monotonic(),
                pid=ranks.pids[rank],
                collectives=collective_log.read(ranks.log, rank),
            )
            if outcome is None:
                return None
            passed[rank] = outcome
    # What the ranks printed came before their reports, and nothing comes after them.
    return None if poll.poll(0) else passed


def _passed(data: bytes, rank: int, **known: Any) -> RankOutcome | None:
    """The rank's outcome, with ``known`` fields, where ``data`` is the whole report of a pass and no more."""
    frame = only_frame(data)
    try:
        message = decode(frame, **known) if frame is not None else None
    except ProtocolError:
        return None
    if not isinstance(message, Report):
        return None
    outcome = message.outcome
    return outcome if outcome.rank == rank and outcome.status is Status.PASSED else None
