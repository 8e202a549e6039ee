"""Ranks that wait for each other: by messages, by groups in other orders, or two by one call each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.communication.analysis.difference_text import MOST_SIDES, Explanation, verb_of
from harness.communication.analysis.matching import CallsByRank, differences_of, row_key, rows
from harness.communication.analysis.message_counts import counts_text, unequal_counts
from harness.communication.analysis.missing_ranks import MissingRanks, decisive, in_a_cycle
from harness.communication.analysis.outlier import outlier
from harness.communication.analysis.wait_graph import Waiting
from harness.communication.analysis.waits_text import alike, waits_text
from harness.communication_call import Call, Kind
from harness.outcomes import ranks_text


def cycle(calls: CallsByRank, waiting: Mapping[int, Waiting]) -> Explanation | None:
    """A cycle of ranks each of which waits for a message of the next."""
    for start in sorted(waiting):
        path = [start]
        while waiting[path[-1]].call.kind in (Kind.SEND, Kind.RECEIVE):
            following = [r for r in waiting[path[-1]].waits_for if r in waiting]
            if not following:
                break
            if following[0] in path:
                return _cycle_text(calls, [*path[path.index(following[0]) :], following[0]], waiting)
            path.append(following[0])
    return None


def _cycle_text(calls: CallsByRank, cycle: Sequence[int], waiting: Mapping[int, Waiting]) -> Explanation:
    stuck = [waiting[rank].call for rank in cycle[:-1]]
    arrows = " -> ".join(map(str, cycle))
    operations = " and ".join(sorted({call.signature.operation for call in stuck}))
    places = list(dict.fromkeys(call.place for call in stuck if call.place))
    at = f" ({', '.join(places[:MOST_SIDES])})" if places else ""
    counts = counts_text(unequal_counts(calls, cycle))
    return Explanation(f"ranks {arrows} wait for each other in {operations}{at}{counts}", ())


def crossed_groups(calls: CallsByRank, waiting: Mapping[int, Waiting]) -> Explanation | None:
    """Ranks that wait on different groups, and call the other's group later or earlier.

    None where ranks differ in one of these collectives: another order of groups leaves each as it is.
    """
    cycle = in_a_cycle(waiting)
    on = {rank: waiting[rank] for rank in cycle if waiting[rank].call.kind is Kind.COLLECTIVE}
    groups = {w.call.signature.group_key for w in on.values()}
    if len(groups) < 2 or len(on) < len(cycle) or _differ(calls, [w.call for w in on.values()]):
        return None
    same = alike(on, lambda rank: on[rank].call.signature.group_key)
    for each in on.values():
        wanted = [r for r in each.waits_for if r in on]
        if not any(on[r].call.signature.group_key != each.call.signature.group_key for r in wanted):
            return None
    sides = sorted(same, key=lambda side: (-len(side[1]), side[1][0]))
    majority = len(sides[0][1]) > len(on) - len(sides[0][1])
    odd = [rank for _, ranks in sides[1:] for rank in ranks] if majority else []
    ordered = [*sides[1:], sides[0]] if majority else sides
    if (text := _two_orders_text([(ranks, on[ranks[0]].call) for _, ranks in ordered])) is not None:
        return Explanation(text, tuple(sorted(odd)))
    parts = [
        f"{verb_of(ranks, 'calls', 'call')} {on[ranks[0]].call}{on[ranks[0]].call.at}" for _, ranks in ordered
    ]
    return Explanation(
        f"ranks call groups in different orders and wait for each other: {', '.join(parts)}",
        tuple(sorted(odd)),
    )


def _differ(calls: CallsByRank, among: Sequence[Call]) -> bool:
    """Whether ranks differ in a collective to which one of these calls belongs, also ranks past it."""
    keys = {row_key(call) for call in among}
    return bool(differences_of(row for row in rows(calls) if row_key(row.first) in keys))


def _two_orders_text(sides: Sequence[tuple[Sequence[int], Call]]) -> str | None:
    """The line about two groups of which some ranks call the one first, and others the other; else None."""
    if len(sides) != 2 or sides[0][1].signature.operation != sides[1][1].signature.operation:
        return None
    (ranks, first), (others, second) = sides
    one, other = (call.signature.group_text.removeprefix("group ") for call in (first, second))
    groups = "" if first.signature.default or second.signature.default else "groups "
    at = second.at if second.place != first.place else ""
    calls = (
        f"{verb_of(ranks, 'calls', 'call')} {first.signature.operation} on {groups}{one}, {other}{first.at}"
    )
    return f"{calls}, {ranks_text(others)} on {other}, {one}{at}"


def groups_in_a_cycle(waiting: Mapping[int, Waiting]) -> int:
    """In how many groups ranks wait for themselves by way of others."""
    return len({waiting[rank].call.signature.group_key for rank in in_a_cycle(waiting)})


def mutual(calls: CallsByRank, waiting: Mapping[int, Waiting], found: MissingRanks) -> Explanation | None:
    """Two ranks that wait for each other, where it is open which of them is odd; None where it is not.

    It is open where the one that does not come waits for a message of one that has come, and where several
    collectives tell otherwise who is odd.
    """
    (odd, *others) = found.odd
    if others or odd not in waiting:
        return None
    if not found.disputed and waiting[odd].call.kind not in (Kind.SEND, Kind.RECEIVE):
        return None
    other = next((r for r in decisive(waiting) if _wait_for_each_other(waiting, odd, r)), None)
    if other is None:
        return None
    pair = (odd, other) if outlier(calls) != other else (other, odd)
    (one, first), (two, second) = ((rank, waiting[rank].call) for rank in pair)
    text = f"rank {one} waits for rank {two} in {first.brief}{first.at}, and rank {two} for rank {one} in "
    rest = waits_text([each for rank, each in waiting.items() if rank not in pair])
    return Explanation(f"{text}{second.brief}{second.at}{rest and f'; {rest}'}", pair)


def _wait_for_each_other(waiting: Mapping[int, Waiting], one: int, other: int) -> bool:
    return other in waiting and one in waiting[other].waits_for and other in waiting[one].waits_for
