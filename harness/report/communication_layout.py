"""``lanes``: the layout of a picture of a failed test's communication: a lane a rank, what meets in a column.

Columns are no times: calls take microseconds and a hang takes seconds. A rank's calls stand in its order, and
those that belong together in one column, except where ranks made them in different orders. Pure;
``communication_picture.py`` draws it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.communication.analysis.matching import (
    CallsByRank,
    Difference,
    Row,
    difference,
    messages,
    paired,
    rows,
)
from harness.communication_call import Call, Kind
from harness.outcomes import Status, ranks_text
from harness.record import MOST_CALLS, RankRecord
from harness.report.activity import standing

# How many of the last meetings are shown, and how many of those before in which something is wrong.
MOST_SHOWN = 30
MOST_EARLIER = 3
# Of more ranks, those that did the same have one lane together.
MOST_LANES = 8
# Of more lanes, fewer meetings are shown, so that a picture has no more boxes; but not fewer than these.
FEWEST_SHOWN = 10

MET, OPEN, UNMATCHED, DIFFERS = "met", "open", "unmatched", "differs"
_SAY = {
    MET: "",
    OPEN: "under way",
    UNMATCHED: "unmatched",
    DIFFERS: "differs between ranks",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One call in its rank's lane. ``state``: as of its meeting, and of a difference only the odd ones'."""

    rank: int
    column: int
    call: Call
    state: str


@dataclass(frozen=True, slots=True)
class Meeting:
    """The calls of one collective, of one message, or one call alone.

    ``state`` is MET, OPEN (all have come, and not all are done), UNMATCHED (somebody did not come) or
    DIFFERS (in arguments). ``missing`` are the ranks with a lane that did not come, at ``column``. ``text``
    says what it is, who came, who did not, and where.
    """

    cells: tuple[Cell, ...]
    column: int
    state: str
    text: str
    missing: tuple[int, ...] = ()
    message: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """One rank: how many of its calls are not shown, its last column (-1: none), and where it stands.

    ``ranks`` are those that did the same, of which ``rank`` is shown. ``over``: it is no longer in its test.
    """

    rank: int
    ranks: tuple[int, ...]
    status: Status
    earlier: int
    last: int
    stands: str
    over: bool


@dataclass(frozen=True, slots=True)
class Lanes:
    """The picture: its lanes, the meetings from left to right, and before which columns some are left out."""

    lanes: tuple[Lane, ...]
    meetings: tuple[Meeting, ...]
    columns: int
    gaps: Mapping[int, int] = field(default_factory=dict)  # column -> meetings left out there


_GOING_ON = frozenset({Status.ENDED, Status.TIMED_OUT, Status.DEADLOCKED})
# What is shown of a rank's calls, besides what it waits for at the end.
_SHOWN = frozenset({Kind.COLLECTIVE, Kind.SEND, Kind.RECEIVE, Kind.MAKING})


@dataclass(slots=True)
class _Group:
    """Calls that belong together, before they have columns."""

    calls: dict[int, Call]
    state: str
    odd: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    message: bool = False


def lanes(ranks: Sequence[RankRecord], most: int = MOST_SHOWN) -> Lanes | None:
    """The picture of a test's ranks; None where none of them has called anything.

    It shows the last ``most`` meetings, and of those before the last few in which something is wrong.
    """
    groups = _groups({r.rank: r.calls for r in ranks})
    if not groups:
        return None
    texts = {id(group): _text(group) for group in groups}
    together = _together(ranks, groups)
    for group in groups:
        group.calls = {rank: call for rank, call in group.calls.items() if rank in together}
        group.missing = tuple(rank for rank in group.missing if rank in together)
    ordered = _in_order(groups)
    kept = _kept(ordered, max(FEWEST_SHOWN, most * MOST_LANES // max(MOST_LANES, len(together))))
    places, gaps, columns = _columns(ordered, kept, sorted(together))
    shown = tuple(
        _meeting(group, places, texts[id(group)])
        for group in {id(ordered[place].group): ordered[place].group for place in kept}.values()
    )
    found = tuple(_lane(r, together[r.rank], groups, shown) for r in ranks if r.rank in together)
    return Lanes(found, shown, columns, gaps)


def _meeting(group: _Group, places: Mapping[tuple[int, int], int], text: str) -> Meeting:
    cells = tuple(
        Cell(rank, places[rank, id(group)], call, _state_of(group, rank))
        for rank, call in sorted(group.calls.items())
    )
    return Meeting(cells, places[-1, id(group)], group.state, text, group.missing, group.message)


def _lane(
    record: RankRecord, ranks: tuple[int, ...], groups: Iterable[_Group], shown: Iterable[Meeting]
) -> Lane:
    mine = [cell.column for meeting in shown for cell in meeting.cells if cell.rank == record.rank]
    made = sum(record.rank in group.calls for group in groups)
    over = record.status not in _GOING_ON
    last = max(mine, default=-1)
    return Lane(record.rank, ranks, record.status, made - len(mine), last, standing(record), over)


def _together(ranks: Sequence[RankRecord], groups: Sequence[_Group]) -> dict[int, tuple[int, ...]]:
    """The ranks that have a lane, with those that did the same and stand at the same place."""
    if len(ranks) <= MOST_LANES:
        return {record.rank: (record.rank,) for record in ranks}
    did: dict[int, list[object]] = defaultdict(list)
    for group in groups:
        for rank in (*group.calls, *group.missing):
            did[rank].append((id(group), rank in group.missing, _state_of(group, rank)))
    alike: dict[object, list[int]] = defaultdict(list)
    for record in sorted(ranks, key=lambda r: r.rank):
        alike[record.status, standing(record), tuple(did[record.rank])].append(record.rank)
    return {same[0]: tuple(same) for same in alike.values()}


def _text(group: _Group) -> str:
    first = next(iter(group.calls.values()))
    alike: dict[str, list[int]] = defaultdict(list)
    for rank, call in sorted(group.calls.items()):
        alike[f"{call}{call.at}"].append(rank)
    came = "; ".join(f"{ranks_text(ranks)}: {call}" for call, ranks in alike.items())
    if len(alike) == 1:
        came = f"{first}: {ranks_text(group.calls)}{first.at}"
    absent = f"; {ranks_text(group.missing)} did not come" if group.missing else ""
    verb = "differs" if len(group.odd) == 1 else "differ"
    said = f"{ranks_text(group.odd)} {verb}" if group.odd else _SAY[group.state]
    return f"{came}{absent}" + (f" ({said})" if said else "")


def _state_of(group: _Group, rank: int) -> str:
    if group.state is DIFFERS and group.odd and rank not in group.odd:
        return MET
    return group.state


# -- what belongs together


def _groups(calls: CallsByRank) -> list[_Group]:
    """All calls that are shown, those that belong together as one, in no order."""
    wanted = {(rank, id(call)) for rank, mine in calls.items() for call in mine if _is_shown(call)}
    found: list[_Group] = []
    for row in rows(calls):
        different = difference(row)
        if different is not None or all((rank, id(call)) in wanted for rank, call in row.calls.items()):
            found.append(_of_row(row, different, calls))
    found += _messages(calls)
    wanted -= {(rank, id(call)) for group in found for rank, call in group.calls.items()}
    for rank, mine in calls.items():
        for call in mine:
            if (rank, id(call)) in wanted:
                found.append(_alone(rank, call, calls))
    return found


def _is_shown(call: Call) -> bool:
    return call.kind in _SHOWN or (call.waits and call.kind in (Kind.STORE, Kind.ANSWER, Kind.WORKERS))


def _of_row(row: Row, different: Difference | None, calls: CallsByRank) -> _Group:
    missing = tuple(rank for rank in row.missing() if rank in calls and not _forgotten(row, calls[rank]))
    if different is not None:
        return _Group(dict(row.calls), DIFFERS, different.odd, missing)
    return _Group(dict(row.calls), UNMATCHED if missing else MET if row.over else OPEN, (), missing)


def _forgotten(row: Row, mine: Sequence[Call]) -> bool:
    """Whether a rank may have made a call of this row before the first one of which there is a record."""
    if len(mine) < MOST_CALLS:
        return False
    s = row.first.signature
    same = [c for c in mine if c.signature.group_key == s.group_key and c.kind is row.first.kind]
    return row.started_s < mine[0].started_s or any(c.sequence > row.first.sequence for c in same)


def _messages(calls: CallsByRank) -> list[_Group]:
    """The messages of which both sides are known.

    Of a rank with calls before the first one on record, nobody can say which message is which.
    """
    whole = {rank for rank, mine in calls.items() if len(mine) < MOST_CALLS}
    found = []
    for channel, send, receive in paired(messages(calls)):
        if {channel.sender, channel.receiver} <= whole and channel.sender != channel.receiver:
            state = MET if receive.ended_s is not None else OPEN
            if send.signature.agreed != receive.signature.agreed:
                state = DIFFERS
            both = {channel.sender: send, channel.receiver: receive}
            found.append(_Group(both, state, message=True))
    return found


def _alone(rank: int, call: Call, calls: CallsByRank) -> _Group:
    """A call that belongs to no other; a message without a peer's call and a wait for a key are unmatched."""
    if call.kind is Kind.STORE:
        return _Group({rank: call}, UNMATCHED)
    if call.kind not in (Kind.SEND, Kind.RECEIVE) or call.refused:
        return _Group({rank: call}, MET if call.ended_s is not None else OPEN)
    peer = call.signature.peer
    # One that is done, and of which the other side is not on record or may be any.
    done = call.ended_s is not None
    unknown = (
        peer is None or peer not in calls or len(calls[peer]) >= MOST_CALLS or len(calls[rank]) >= MOST_CALLS
    )
    if done and (unknown or _from_any(call, calls)):
        return _Group({rank: call}, MET)
    missing = (peer,) if peer is not None and peer in calls and peer != rank else ()
    return _Group({rank: call}, UNMATCHED, (), missing)


def _from_any(call: Call, calls: CallsByRank) -> bool:
    """Whether the receiver of a message also receives from any source with its tag."""
    s = call.signature
    return call.kind is Kind.SEND and any(
        c.kind is Kind.RECEIVE and c.signature.peer is None and c.signature.tag == s.tag
        for c in calls.get(s.peer if s.peer is not None else -1, ())
    )


# -- columns


@dataclass(frozen=True, slots=True)
class _Piece:
    """The calls of one group that can stand in one column: all, but where ranks made them in other orders."""

    group: _Group
    ranks: tuple[int, ...]


def _in_order(groups: Sequence[_Group]) -> list[_Piece]:
    """The groups from left to right, each rank's calls in the order in which it made them.

    Of those that may come next the one that began first does. Where none may, because ranks made them in
    different orders, the ranks that have come to the one that began first stand there without the others.
    """
    queues: dict[int, list[_Group]] = defaultdict(list)
    for group in groups:
        for rank in group.calls:
            queues[rank].append(group)
    for rank, queue in queues.items():
        queue.sort(key=lambda group: -group.calls[rank].started_s)  # the next one is the last
    left = {id(group): set(group.calls) for group in groups}
    found: list[_Piece] = []
    while any(queues.values()):
        heads: dict[int, list[int]] = defaultdict(list)
        by_id: dict[int, _Group] = {}
        for rank, queue in queues.items():
            if queue:
                heads[id(queue[-1])].append(rank)
                by_id[id(queue[-1])] = queue[-1]
        ready = [key for key, ranks in heads.items() if set(ranks) == left[key]]
        began = {key: min(by_id[key].calls[rank].started_s for rank in heads[key]) for key in ready or heads}
        key = min(began, key=began.__getitem__)
        for rank in heads[key]:
            queues[rank].pop()
        left[key] -= set(heads[key])
        found.append(_Piece(by_id[key], tuple(sorted(heads[key]))))
    return found


def _kept(ordered: Sequence[_Piece], most: int) -> list[int]:
    """Which places of the order are shown: the last ones, and a few earlier ones with something wrong."""
    first = max(0, len(ordered) - most)
    shown = {id(piece.group) for piece in ordered[first:]}
    wrong = [id(p.group) for p in ordered[:first] if p.group.state in (UNMATCHED, DIFFERS)]
    shown |= set(list(dict.fromkeys(wrong))[-MOST_EARLIER:])
    return [place for place, piece in enumerate(ordered) if id(piece.group) in shown]


def _columns(
    ordered: Sequence[_Piece], kept: Sequence[int], ranks: Sequence[int]
) -> tuple[dict[tuple[int, int], int], dict[int, int], int]:
    """The column of each call, by rank and group, with -1 for the group's own; the gaps; how many there are.

    Nothing stands between the lanes of what belongs together.
    """
    lane = {rank: number for number, rank in enumerate(ranks)}
    free = [0] * len(ranks)
    places: dict[tuple[int, int], int] = {}
    gaps: dict[int, int] = {}
    for before, place in zip([-1, *kept], kept, strict=False):
        piece = ordered[place]
        if place > before + 1:
            column = max(free)
            gaps[column] = place - before - 1
            free = [column] * len(free)
        first_piece = (-1, id(piece.group)) not in places
        involved = [*piece.ranks, *(piece.group.missing if first_piece else ())]
        numbers = [lane[rank] for rank in involved]
        span = range(min(numbers), max(numbers) + 1)
        column = max(free[number] for number in span)
        for number in span:
            free[number] = column + 1
        for rank in piece.ranks:
            places[rank, id(piece.group)] = column
        places.setdefault((-1, id(piece.group)), column)
    return places, gaps, max(free, default=0)
