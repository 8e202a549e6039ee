"""``other_group``: the rank that takes another group than the others do, as of another dimension. Pure.

Groups of one dimension have other members on other ranks, so that no call of theirs is the same, and he who
waits for one of them seems to wait for ranks that have gone on rightly. What tells is that ranks which run
one program call, at the same step of it, groups of the same description, or the same group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.communication.analysis.difference_text import MOST_SIDES, Explanation, verb_of
from harness.communication.analysis.matching import CallsByRank
from harness.communication.analysis.wait_graph import Waiting
from harness.communication.call_log import ENTRIES
from harness.communication_call import Call, Kind, members_text


def other_group(calls: CallsByRank, waiting: Mapping[int, Waiting]) -> Explanation | None:
    """The rank that waits on a group of one kind where all others call groups of another one.

    A kind is a description, or one group that the rank is in as well, as all others of its own are in that.
    None where nobody waits for that rank, and where others are not at least two, of one kind.
    """
    if any(len(mine) >= ENTRIES for mine in calls.values()):
        return None  # the first calls are no longer known
    for odd, each in waiting.items():
        mine = each.call
        if mine.kind is not Kind.COLLECTIVE:
            continue
        step = _alike(calls[odd], mine).index(mine)
        theirs = {r: _alike(calls[r], mine)[step : step + 1] for r in calls if r != odd}
        others = {rank: found[0] for rank, found in theirs.items() if found}
        awaited = any(odd in w.waits_for for rank, w in waiting.items() if rank != odd)
        if awaited and len(others) > 1 and (_described(mine, others) or _called(odd, mine, others)):
            return Explanation(_text(odd, mine, others), (odd,))
    return None


def _described(mine: Call, others: Mapping[int, Call]) -> bool:
    """Whether the groups of all others have one description, which is another one than the rank's own."""
    described = {call.signature.description for call in others.values()}
    own = mine.signature.description
    return bool(own) and len(described) == 1 and not described & {"", own}


def _called(odd: int, mine: Call, others: Mapping[int, Call]) -> bool:
    """Whether all others call one group, of which the rank is, and all of its own group are among them."""
    (group, *more) = {call.signature.group_key: call.signature for call in others.values()}.values()
    if more or group.group_key == mine.signature.group_key or odd not in group.members:
        return False
    return {*mine.signature.members} - {odd} <= others.keys()


def _alike(calls: Sequence[Call], call: Call) -> list[Call]:
    """A rank's calls of one operation at one line."""
    name, place = call.signature.operation, call.place
    return [c for c in calls if c.kind is call.kind and c.signature.operation == name and c.place == place]


def _text(odd: int, mine: Call, others: Mapping[int, Call]) -> str:
    who = f"{verb_of(sorted(others), 'calls', 'call')} it on"
    theirs = next(iter(others.values())).signature
    if not _described(mine, others):
        return f"{_calls(odd, mine)} on {mine.signature.group_text}{mine.at}, {who} {theirs.group_text}"
    groups = list(dict.fromkeys(f"{{{members_text(c.signature.members)}}}" for c in others.values()))
    shown = ", ".join(groups[:MOST_SIDES]) + (", ..." if len(groups) > MOST_SIDES else "")
    own = f"{{{members_text(mine.signature.members)}}} ({mine.signature.description})"
    word = "group" if len(groups) == 1 else "groups"
    return f"{_calls(odd, mine)} on group {own}{mine.at}, {who} {word} {shown} ({theirs.description})"


def _calls(rank: int, call: Call) -> str:
    return f"rank {rank} calls {call.signature.operation}"
