"""Which difference between ranks' calls the cause line tells: where ranks wait, or where one failed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from harness.communication.analysis.difference_text import Explanation, difference_text, message_text
from harness.communication.analysis.matching import (
    CallsByRank,
    Difference,
    differences,
    messages,
    unequal_messages,
)
from harness.communication.analysis.odd_steps import with_odd_step
from harness.communication.analysis.wait_graph import Waiting
from harness.communication_call import Call, Kind


def difference_in(calls: CallsByRank, waiting: Mapping[int, Waiting]) -> Explanation | None:
    """The first difference among collectives in which a rank waits, else the first of all."""
    found = differences(calls)
    if not found:
        return _unequal_message(calls)
    stuck = [d for d in found if any(d.row.calls.get(rank) is w.call for rank, w in waiting.items())]
    return difference_text(_at_first((stuck or found)[0], found))


def explain_failed_call(rank: int, calls: CallsByRank) -> Explanation | None:
    """The difference between ranks in the call in which one of them crashed or got an error; None for none.

    A backend that meets tensors of other sizes than its own ends the rank that notices, which may be any.
    Where nothing is known of that one, as of a process that another launcher started, its peers' calls tell.
    """
    known = (rank,) if calls[rank] else tuple(calls)
    suspects = [call for each in known for call in _suspects(calls[each])]
    every = differences(calls)
    for found in every:
        if any(found.row.calls.get(each) in suspects for each in known):
            return with_odd_step(difference_text(_at_first(found, every)), calls)
    return _unequal_message(calls, suspects)


def _at_first(found: Difference, every: Sequence[Difference]) -> Difference:
    """The layout in which the same ranks were odd before, of whose tensors a collective then had others."""
    members = {*found.row.first.signature.members}
    for each in every:
        layout = each.row.first.kind is Kind.LAYOUT and members <= {*each.row.first.signature.members}
        if layout and each.odd == found.odd and each.row.started_s <= found.row.started_s:
            return each
    return found


def _suspects(calls: Sequence[Call]) -> list[Call]:
    """The calls of which one may have ended the rank: its last, those that raised, those under way.

    The last one of the user's may be several of the backend's, as those of objects are.
    """
    communicated = [c for c in calls if c.kind in (Kind.COLLECTIVE, Kind.SEND, Kind.RECEIVE, Kind.LAYOUT)]
    return [c for c in communicated if _same_call(c, communicated[-1]) or c.raised or _may_be_under_way(c)]


def _may_be_under_way(call: Call) -> bool:
    """Whether the call had not ended, or had given its future away, for which the rank had not waited yet."""
    return call.ended_s is None or (call.own_work and call.waiting_s is None)


def _same_call(call: Call, last: Call) -> bool:
    """Whether both are one call, or parts of one collective of the user's."""
    one, other = call.signature, last.signature
    collectives = call.kind is last.kind is Kind.COLLECTIVE
    parts = (one.group_key, one.operation, call.number) == (other.group_key, other.operation, last.number)
    return call is last or (collectives and parts)


def _unequal_message(calls: CallsByRank, among: Collection[Call] | None = None) -> Explanation | None:
    """The first message of which sender and receiver expect other tensors, if one of the two is ``among``."""
    for channel, send, receive in unequal_messages(messages(calls)):
        if among is not None and send not in among and receive not in among:
            continue
        return message_text(channel, send, receive)
    return None
