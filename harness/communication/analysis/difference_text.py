"""``difference_text``: the line about one call in which ranks differ. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.communication.analysis.matching import Channel, Difference, Row
from harness.communication_call import Call, Kind
from harness.outcomes import ranks_text

# What compares the parameters of ranks; a rank's are apart by semicolons.
MODULE = "DistributedDataParallel"
# The most ranks, or groups of ranks that did the same, that a line names.
MOST_SIDES = 4


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why ranks wait for ever: one line, and the ranks to blame, the first one first; () where all are.

    ``group`` is the key of the group in whose collective they do; None where it is none of one group.
    """

    text: str
    ranks: tuple[int, ...] = ()
    group: object = field(default=None, compare=False)


def difference_text(found: Difference) -> Explanation:
    """The line about one difference: the odd ranks first, with what they gave and where."""
    row = found.row
    odd = found.odd
    sides = [(ranks, text) for ranks, text in found.sides if set(ranks) <= set(odd)]
    sides += [(ranks, text) for ranks, text in found.sides if not set(ranks) <= set(odd)]
    said = _SAY[found.what](row, sides[:MOST_SIDES])
    ranks = odd or tuple(sorted(rank for ranks, _ in sides for rank in ranks))
    return Explanation(said, ranks, group_of(row.first))


def group_of(call: Call) -> object:
    """The key of a collective's group; None for what is no collective."""
    return call.signature.group_key if call.kind is Kind.COLLECTIVE else None


Sides = Sequence[tuple[tuple[int, ...], str]]


def _of(row: Row, ranks: Sequence[int]) -> Call:
    return row.calls[ranks[0]]


def verb_of(ranks: Sequence[int], one: str, several: str) -> str:
    """The ranks with a predicate: "rank 1 waits", "ranks 1, 2 wait"."""
    return f"{ranks_text(ranks)} {one if len(ranks) == 1 else several}"


def _operations(row: Row, sides: Sides) -> str:
    (ranks, _), *others = sides
    call = _of(row, ranks)
    rest = ", ".join(
        f"{verb_of(each, 'calls', 'call')} {_of(row, each).name}{_of(row, each).at}" for each, _ in others
    )
    return f"{verb_of(ranks, 'calls', 'call')} {call.brief}{call.at}, {rest}"


def _members(row: Row, sides: Sides) -> str:
    parts = [
        f"{verb_of(ranks, 'makes', 'make')} {_set(_of(row, ranks).signature.members)}{_of(row, ranks).at}"
        for ranks, _ in sides
    ]
    return f"ranks make different groups: {', '.join(parts)}"


def _set(members: Iterable[int]) -> str:
    return "group {" + ", ".join(map(str, members)) + "}"


def _value(one: str, several: str, shown: Callable[[str], str]) -> Callable[[Row, Sides], str]:
    def say(row: Row, sides: Sides) -> str:
        (ranks, value), *others = sides
        call = _of(row, ranks)
        rest = "".join(
            f", {ranks_text(each)} {shown(text)}{_elsewhere(row, each, call)}" for each, text in others
        )
        return f"{verb_of(ranks, one, several)} {shown(value)}{rest}, in {call.brief}{call.at}"

    return say


def _parts(row: Row, sides: Sides) -> str:
    (ranks, value), (others, other) = sides
    call = _of(row, ranks)
    return f"{ranks_text(ranks)} {value}, {ranks_text(others)} {other}, in {call.brief}{call.at}"


def _tensors(row: Row, sides: Sides) -> str:
    if row.first.signature.operation == MODULE:
        sides = _parameters(sides)
    (ranks, value), *others = sides
    call = _of(row, ranks)
    verb = _TENSOR_VERBS.get(call.signature.operation, ("gives", "give"))
    rest = ", ".join(f"{ranks_text(each)} {text}{_elsewhere(row, each, call)}" for each, text in others)
    return f"{verb_of(ranks, *verb)} {value} in {call.brief}{call.at}, {rest}"


def _parameters(sides: Sides) -> Sides:
    """Of each side's parameters how many there are, or, where these are as many, the first that differs."""
    every = [text.split("; ") for _, text in sides]
    at = next((n for n, each in enumerate(zip(*every, strict=False)) if len(set(each)) > 1), 0)
    if len({len(each) for each in every}) > 1:
        return [(ranks, f"{len(each)} parameters") for (ranks, _), each in zip(sides, every, strict=True)]
    return [(ranks, f"{each[at]} for parameter {at}") for (ranks, _), each in zip(sides, every, strict=True)]


def _elsewhere(row: Row, ranks: Sequence[int], than: Call) -> str:
    """The line of these ranks' call, if it is another one than that of the call that has been told."""
    call = _of(row, ranks)
    return "" if call.place == than.place else call.at


_TENSOR_VERBS = {
    "all_reduce": ("reduces", "reduce"),
    "reduce": ("reduces", "reduce"),
    "broadcast": ("broadcasts", "broadcast"),
    "redistribute": ("redistributes to", "redistribute to"),
    "distribute_tensor": ("distributes", "distribute"),
    "from_local": ("holds", "hold"),
    MODULE: ("has", "have"),
}


_SAY: Mapping[str, Callable[[Row, Sides], str]] = {
    "operation": _operations,
    "members": _members,
    "root": _value("takes", "take", lambda rank: f"rank {rank} for the root"),
    "reduce operation": _value("reduces", "reduce", lambda name: f"with {name}"),
    "tensors": _tensors,
    "parts": _parts,
}


def incomplete_text(row: Row, absent: Sequence[int]) -> str:
    """The line about a collective that the ranks ``absent`` never called: the fewer ranks come first."""
    callers = tuple(sorted(row.calls))
    call = _of(row, callers)
    if len(callers) < len(absent):
        return f"{verb_of(callers, 'calls', 'call')} {call}{call.at}, which {ranks_text(absent)} never called"
    return f"{ranks_text(absent)} never called {call}, which {verb_of(callers, 'calls', 'call')}{call.at}"


def made_by_some_text(row: Row, absent: Sequence[int]) -> str:
    """The line about a group that ranks made without the ranks ``absent``."""
    makers = tuple(sorted(row.calls))
    call = _of(row, makers)
    group, make = _set(call.signature.members), verb_of(makers, "makes", "make")
    all_have_to = "all ranks have to call new_group, members or not"
    if len(makers) < len(absent):
        return f"{make} {group}{call.at}, which {ranks_text(absent)} never made: {all_have_to}"
    return f"{ranks_text(absent)} never made {group}, which {make}{call.at}: {all_have_to}"


def message_text(channel: Channel, send: Call, receive: Call) -> Explanation:
    """The line about a message of which sender and receiver expect other tensors."""
    given = f"{send.signature.tensors}{_by(send)}{send.at}"
    wanted = f"{receive.signature.tensors} from it{_by(receive)}{receive.at}"
    text = f"rank {channel.sender} sends {given}, and rank {channel.receiver} receives {wanted}"
    return Explanation(text, (channel.sender, channel.receiver))


def _by(message: Call) -> str:
    name = message.signature.object_list
    return f" by {name}" if name else ""
