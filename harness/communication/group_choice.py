"""``other_group``: the rank that takes another dimension's group of a mesh than the others do. Pure.

Groups of one dimension have other members on other ranks, so that no call of theirs is the same, and he who
waits for one of them seems to wait for ranks that have gone on rightly. What tells is that ranks which run
one program call, at the same step of it, groups of the same description.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.communication.call_log import ENTRIES
from harness.communication.difference_text import MOST_SIDES, Explanation, verb_of
from harness.communication.matching import CallsByRank
from harness.communication.wait_graph import Waiting
from harness.communication_call import Call, Kind, members_text


def other_group(calls: CallsByRank, waiting: Mapping[int, Waiting]) -> Explanation | None:
    """The rank that waits on a group of one description where all others call groups of another one.

    None where nobody waits for that rank, and where others are not at least two, of one description.
    """
    if any(len(mine) >= ENTRIES for mine in calls.values()):
        return None  # the first calls are no longer known
    for odd, each in waiting.items():
        mine = each.call
        if mine.kind is not Kind.COLLECTIVE or not mine.signature.description:
            continue
        step = _alike(calls[odd], mine).index(mine)
        theirs = {r: _alike(calls[r], mine)[step : step + 1] for r in calls if r != odd}
        others = {rank: found[0] for rank, found in theirs.items() if found}
        described = {call.signature.description for call in others.values()}
        agreed = len(others) > 1 and len(described) == 1 and "" not in described
        awaited = any(odd in w.waits_for for rank, w in waiting.items() if rank != odd)
        if awaited and agreed and mine.signature.description not in described:
            return Explanation(_text(odd, mine, others), (odd,))
    return None


def _alike(calls: Sequence[Call], call: Call) -> list[Call]:
    """A rank's calls of one operation at one line."""
    name, place = call.signature.operation, call.place
    return [c for c in calls if c.kind is call.kind and c.signature.operation == name and c.place == place]


def _text(odd: int, mine: Call, others: Mapping[int, Call]) -> str:
    groups = list(dict.fromkeys(f"{{{members_text(c.signature.members)}}}" for c in others.values()))
    shown = ", ".join(groups[:MOST_SIDES]) + (", ..." if len(groups) > MOST_SIDES else "")
    theirs = next(iter(others.values())).signature.description
    own = f"{{{members_text(mine.signature.members)}}} ({mine.signature.description})"
    who = verb_of(sorted(others), "calls", "call")
    word = "group" if len(groups) == 1 else "groups"
    operation = mine.signature.operation
    return f"rank {odd} calls {operation} on group {own}{mine.at}, {who} it on {word} {shown} ({theirs})"
