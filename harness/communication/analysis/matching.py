"""Puts the calls of all ranks together: which belong to one collective, and in what they differ.

Everything here is a pure function of calls, for ranks of every mode.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.communication_call import UNNAMED, Call, Kind

CallsByRank = Mapping[int, Sequence[Call]]


@dataclass(frozen=True, slots=True)
class Row:
    """The calls of all ranks that belong to one collective, or to the making of one group."""

    calls: Mapping[int, Call]  # by global rank

    @property
    def first(self) -> Call:
        """The call of the lowest rank."""
        return self.calls[min(self.calls)]

    @property
    def started_s(self) -> float:
        """When the first rank began it."""
        return min(call.started_s for call in self.calls.values())

    @property
    def over(self) -> bool:
        """Whether every rank that called it has returned from it."""
        return all(call.ended_s is not None or call.unseen for call in self.calls.values())

    def missing(self) -> list[int]:
        """The members of the group that have not called it; [] where the members are unknown."""
        return [member for member in self.first.signature.members if member not in self.calls]


@dataclass(frozen=True, slots=True)
class Difference:
    """What some ranks gave to a call otherwise than others: ``sides`` are (ranks, their value as a text).

    The majority's side comes first; ``odd`` are the other ranks, () where there is no majority. ``misfit`` is
    the one rank with which several others do not fit, where it is pairs of ranks that have to.
    """

    what: str
    row: Row
    sides: tuple[tuple[tuple[int, ...], str], ...]
    misfit: int | None = None

    @property
    def odd(self) -> tuple[int, ...]:
        """The ranks outside of the majority; () where no side has more ranks than all others together."""
        if self.misfit is not None:
            return (self.misfit,)
        first, *others = self.sides
        rest = [rank for ranks, _ in others for rank in ranks]
        return tuple(sorted(rest)) if len(first[0]) > len(rest) else ()


def rows(calls: CallsByRank) -> list[Row]:
    """The collectives and the makings of groups, in the order in which they began."""
    found: dict[tuple[object, ...], dict[int, Call]] = defaultdict(dict)
    for rank, mine in calls.items():
        for call in mine:
            key = row_key(call)
            if key is not None:
                found[key][rank] = call
    return sorted((Row(by_rank) for by_rank in found.values()), key=lambda row: row.started_s)


def row_key(call: Call) -> tuple[object, ...] | None:
    """What calls that belong together have in common; None for messages and for waits on a store.

    None also for a group without a name whose members are unknown: a rank that has several calls all of them
    the same.
    """
    s = call.signature
    if s.group == UNNAMED and not s.members:
        return None
    if s.kind in (Kind.COLLECTIVE, Kind.LAYOUT):
        return (s.kind, *s.group_key, call.sequence)
    if s.kind is Kind.MAKING:
        return (s.kind, s.group, s.generation)
    return None


# What calls of one collective must have alike, the most telling first.
_ALIKE: tuple[tuple[str, Callable[[Call], object]], ...] = (
    ("operation", lambda call: call.signature.operation),
    ("members", lambda call: call.signature.members),
    ("root", lambda call: call.signature.root),
    ("reduce operation", lambda call: call.signature.reduce_op),
    ("tensors", lambda call: call.signature.agreed),
)


def difference(row: Row) -> Difference | None:
    """In what the calls of one collective differ that must be alike: the most telling; None for nothing."""
    if len(row.calls) < 2:
        return None
    signatures = {id(call.signature) for call in row.calls.values()}
    if len(signatures) == 1 and not row.first.signature.sent:
        return None  # the usual case
    if all(_is_alone(call) for call in row.calls.values()):
        return None
    for what, value in _ALIKE:
        given = {rank: value(call) for rank, call in row.calls.items()}
        if len(set(given.values())) > 1:
            sides = _sides(given)
            shown = tuple((ranks, _shown(what, row.calls[ranks[0]], value)) for ranks in sides)
            return Difference(what, row, shown)
    return _unequal_parts(row)


def _is_alone(call: Call) -> bool:
    """Whether a rank makes a group of one member.

    Each rank may make one of itself alone at the same time: torch gives them one name, under which no two
    ranks ever meet.
    """
    return call.signature.kind is Kind.MAKING and len(call.signature.members) == 1


def _shown(what: str, call: Call, value: Callable[[Call], object]) -> str:
    return call.signature.tensors if what == "tensors" else str(value(call))


def _sides(values: Mapping[int, object]) -> list[tuple[int, ...]]:
    """The ranks by value: most ranks first, of equally many the lowest rank."""
    ranks: dict[object, list[int]] = defaultdict(list)
    for rank, value in sorted(values.items()):
        ranks[value].append(rank)
    return sorted((tuple(each) for each in ranks.values()), key=lambda each: (-len(each), each[0]))


def _unequal_parts(row: Row) -> Difference | None:
    """The first pair of ranks of which one sends another count of elements than the other expects.

    Where it is one rank that others do not fit while they fit each other, its pair comes first, and it is the
    odd one.
    """
    pairs = [*_pairs(row)]
    unequal = [
        (sender, sent, receiver, expected) for sender, sent, receiver, expected in pairs if sent != expected
    ]
    if not unequal:
        return None
    misfits = set.intersection(*({sender, receiver} for sender, _, receiver, _ in unequal))
    if len(misfits) == 2:
        fitting = {r for s, sent, t, expected in pairs if sent == expected and s != t for r in (s, t)}
        misfits = misfits - fitting or misfits
    pairs = unequal
    sender, sent, receiver, expected = next((p for p in pairs if p[0] in misfits), pairs[0])
    sides = (
        ((sender,), f"sends {sent} elements for rank {receiver}"),
        ((receiver,), f"expects {expected} of rank {sender}"),
    )
    return Difference("parts", row, sides, misfit=misfits.pop() if len(misfits) == 1 else None)


def _pairs(row: Row) -> Iterator[tuple[int, int, int, int]]:
    """Yields sender, how much it sends, receiver, and how much that expects, where both are known."""
    place = {member: number for number, member in enumerate(row.first.signature.members)}
    senders = {r: c for r, c in sorted(row.calls.items()) if c.signature.sent and r in place}
    receivers = {r: c for r, c in sorted(row.calls.items()) if c.signature.received and r in place}
    for sender, call in senders.items():
        for receiver, other in receivers.items():
            sent = _part(call.signature.sent, place[receiver])
            expected = _part(other.signature.received, place[sender])
            if sent is not None and expected is not None:
                yield sender, sent, receiver, expected


def _part(table: Sequence[int], member: int) -> int | None:
    return table[member] if member < len(table) and table[member] >= 0 else None


def differences(calls: CallsByRank) -> list[Difference]:
    """All differences between calls that belong together, in the order in which they were made."""
    return differences_of(rows(calls))


def differences_of(matched: Iterable[Row]) -> list[Difference]:
    """All differences within these rows, in their order."""
    found = (difference(row) for row in matched)
    return [each for each in found if each is not None]


# -- messages


@dataclass(frozen=True, slots=True)
class Channel:
    """Where messages follow one another: a group, a sender, a receiver and a tag."""

    group: tuple[str, int, tuple[int, ...]]
    sender: int
    receiver: int
    tag: int


@dataclass(frozen=True, slots=True)
class Messages:
    """The sends and receives of all ranks, in order; ``from_any`` are receives from any source.

    The latter are by group, receiver and tag.
    """

    sends: Mapping[Channel, Sequence[Call]]
    receives: Mapping[Channel, Sequence[Call]]
    from_any: Mapping[tuple[object, int, int], Sequence[Call]]

    def sends_to(self, group: object, receiver: int, tag: int) -> list[tuple[int, Call]]:
        """All sends to a rank with a tag in a group, with their senders."""
        return [
            (channel.sender, call)
            for channel, calls in self.sends.items()
            if (channel.group, channel.receiver, channel.tag) == (group, receiver, tag)
            for call in calls
        ]


def messages(calls: CallsByRank) -> Messages:
    """The sends and receives of all ranks by channel."""
    sends: dict[Channel, list[Call]] = defaultdict(list)
    receives: dict[Channel, list[Call]] = defaultdict(list)
    from_any: dict[tuple[object, int, int], list[Call]] = defaultdict(list)
    for rank, mine in calls.items():
        for call in mine:
            s = call.signature
            if call.refused:
                continue
            if s.kind is Kind.SEND and s.peer is not None:
                sends[Channel(s.group_key, rank, s.peer, s.tag)].append(call)
            elif s.kind is Kind.RECEIVE and s.peer is not None:
                receives[Channel(s.group_key, s.peer, rank, s.tag)].append(call)
            elif s.kind is Kind.RECEIVE:
                from_any[s.group_key, rank, s.tag].append(call)
    return Messages(sends, receives, from_any)


def paired(found: Messages) -> Iterable[tuple[Channel, Call, Call]]:
    """Each message with its send and its receive.

    Where a rank also receives from any source with the same tag, nobody can say what belongs together.
    """
    for channel, sends in found.sends.items():
        if found.from_any.get((channel.group, channel.receiver, channel.tag)):
            continue
        for send, receive in zip(sends, found.receives.get(channel, ()), strict=False):
            yield channel, send, receive


def unequal_messages(found: Messages) -> Iterable[tuple[Channel, Call, Call]]:
    """Messages of which the receiver expects other tensors than the sender sends."""
    for channel, send, receive in paired(found):
        if send.signature.agreed != receive.signature.agreed:
            yield channel, send, receive
