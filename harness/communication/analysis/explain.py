"""``explain``: which rank did what differently, by the calls of all ranks of a test that failed. Pure.

A rank that only waits for others is never the cause. Where most ranks did the same, the odd ones are the
cause; where there is no majority, both sides are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.communication.analysis.call_differences import difference_in
from harness.communication.analysis.cycles import crossed_groups, cycle, groups_in_a_cycle, mutual
from harness.communication.analysis.difference_text import Explanation, group_of, verb_of
from harness.communication.analysis.ended_groups import ended_group
from harness.communication.analysis.group_choice import other_group
from harness.communication.analysis.key_setters import gone_past, narrowed
from harness.communication.analysis.matching import CallsByRank
from harness.communication.analysis.message_counts import counts_text, unequal_counts
from harness.communication.analysis.missing_ranks import decisive, missing_ranks
from harness.communication.analysis.odd_steps import with_odd_step
from harness.communication.analysis.unmatched import misdirected, set_instead_text, tags_differ, unset_text
from harness.communication.analysis.wait_graph import RankView, Waiting, waits_now
from harness.communication.analysis.waits_text import alike, call_text, waits_text
from harness.communication_call import Call, Kind, under_way
from harness.outcomes import ranks_text


@dataclass(frozen=True, slots=True)
class RankState:
    """One rank at the end of its test: its calls; whether it had come to the end of its test, or is gone;
    where it was ("t.py:38 in step"), "" where that is unknown; whether it was a rank thread that could not go
    on because another one ran."""

    rank: int
    calls: Sequence[Call] = ()
    finished: bool = False
    gone: str = ""  # how it went: "crashed with exit code 3"
    at: str = ""
    awaits_turn: bool = False


def explain(states: Sequence[RankState], *, over: bool = False) -> Explanation | None:
    """What the ranks' calls say about why some ranks wait; None where no rank waits, or for no other rank.

    ``over``: the test has come to its deadline. Then, where no rank waits for certain, ranks wait in calls
    that another thread or a timeout of their own could have ended.
    """
    found = _explained(states, over)
    return with_odd_step(found, {state.rank: state.calls for state in states}) if found is not None else None


def _explained(states: Sequence[RankState], over: bool) -> Explanation | None:
    """The same, but for what a rank did wrong before and nobody noticed."""
    calls: CallsByRank = {state.rank: state.calls for state in states}
    by_rank = {state.rank: state for state in states}
    views = [RankView(s.rank, s.calls, settled=s.finished or bool(s.gone)) for s in states]
    waiting = waits_now(views)
    if over and not waiting:
        waiting = waits_now(views, over=True)
    differing = difference_in(calls, waiting)
    if not waiting:
        return differing or (_unanswered(states) if over else None)
    waiting = narrowed(calls, waiting)
    incomplete, crossed = _incomplete(calls, by_rank, waiting), crossed_groups(calls, waiting)
    # Where one rank alone holds up all others, a collective tells better which one is odd; so it does in a
    # cycle over more than two groups, of which most ranks have no order in common.
    if crossed is not None and incomplete is not None and crossed.ranks != incomplete.ranks:
        one = len(decisive(waiting)) == 1
        crossed = None if one or (not crossed.ranks and groups_in_a_cycle(waiting) > 2) else crossed
    if crossed is not None and not crossed.ranks:  # the order that most have may tell who took another group
        crossed = other_group(calls, waiting) or crossed
    return (
        ended_group(calls, waiting, {s.rank for s in states if not (s.finished or s.gone)})
        or crossed
        or differing
        or other_group(calls, waiting)
        or tags_differ(calls, waiting)
        or misdirected(calls, waiting, {s.rank for s in states if s.gone})
        or _unset(by_rank, waiting)
        or incomplete
        or _absent(by_rank, waiting)
        or cycle(calls, waiting)
        or _elsewhere(by_rank, waiting)
        or _store(calls, by_rank, waiting)
    )


# -- ranks that do not come


def _incomplete(
    calls: CallsByRank, by_rank: Mapping[int, RankState], waiting: Mapping[int, Waiting]
) -> Explanation | None:
    """A collective that most members have called and the others never will, or the reverse."""
    found = missing_ranks(calls, waiting, {s.rank for s in by_rank.values() if s.finished or s.gone})
    if found is None or not all(rank in by_rank for rank in found.missing):
        return None
    if (pair := mutual(calls, waiting, found)) is not None:
        return pair
    call, group = found.row.first, group_of(found.row.first)
    same = alike(found.missing, lambda rank: _missing_text(by_rank, waiting, rank, call))
    told = "; ".join(verb_of(ranks, *text) for text, ranks in same)
    waits = [w for rank, w in waiting.items() if found.row.calls.get(rank) is w.call]
    if found.superfluous:
        return Explanation(f"{waits_text(waits, told)}, for which nobody comes: {told}", found.odd, group)
    waits += [w for rank, w in waiting.items() if w not in waits and rank not in found.missing]
    return Explanation(f"{told}; {waits_text(waits, told)}", found.odd, group)


def _missing_text(
    by_rank: Mapping[int, RankState], waiting: Mapping[int, Waiting], rank: int, missed: Call
) -> tuple[str, str]:
    """What a rank did in place of coming, as a predicate in singular and plural."""
    mine = waiting.get(rank)
    if mine is None:
        return _state_text(by_rank[rank], missed)
    calls = {each: state.calls for each, state in by_rank.items()}
    never = f"never came to {missed.brief}"
    where = f"{mine.call}{mine.call.at}{set_instead_text(calls, mine.call)}"
    if _are_known(mine, by_rank):
        one = len(mine.waits_for) == 1
        keys = ("key that names", "is") if one else ("keys that name", "are")
        where += f", where the {keys[0]} {ranks_text(mine.waits_for)} {keys[1]} not set"
    return f"{never}: it waits in {where}", f"{never}: they wait in {where}"


def _absent(by_rank: Mapping[int, RankState], waiting: Mapping[int, Waiting]) -> Explanation | None:
    """Ranks for which others wait and that wait for nobody: they have left, are gone, or are elsewhere."""
    first = sorted(waiting.values(), key=lambda w: w.call.started_s)
    for each in first:
        absent = [r for r in each.waits_for if r in by_rank and r not in waiting]
        # A rank that is in a call itself is on its way, if another is not.
        absent = [r for r in absent if under_way(by_rank[r].calls) is None] or absent
        absent = [r for r in absent if not by_rank[r].awaits_turn] or absent
        if absent and each.call.kind is not Kind.STORE:
            return _absent_text(by_rank, waiting, each.call, absent)
    return None


def _absent_text(
    by_rank: Mapping[int, RankState], waiting: Mapping[int, Waiting], call: Call, absent: Sequence[int]
) -> Explanation:
    waits = [w for w in waiting.values() if set(w.waits_for) & set(absent)]
    calls = {rank: state.calls for rank, state in by_rank.items()}
    of_messages = {w.rank for w in waits if w.call.kind in (Kind.SEND, Kind.RECEIVE)}
    more = counts_text(unequal_counts(calls, {*absent, *of_messages}) if of_messages else ())
    waits += [w for w in waiting.values() if w not in waits]
    who = [w.rank for w in waits]
    same = alike(absent, lambda rank: _state_text(by_rank[rank], call))
    if all(by_rank[rank].finished for rank in absent) and len(absent) > len(waiting):
        left = "; ".join(f"{verb_of(ranks, *text)}" for text, ranks in same)
        return Explanation(
            f"{waits_text(waits, left)}, for which nobody comes: {left}", tuple(who), group_of(call)
        )
    told = "; ".join(verb_of(ranks, *text) for text, ranks in same)
    return Explanation(f"{told}; {waits_text(waits, told)}{more}", tuple(absent), group_of(call))


def _state_text(state: RankState, missed: Call) -> tuple[str, str]:
    """What a rank did in place of coming, as a predicate in singular and plural."""
    after = _after(state, missed)
    if state.gone:
        return (f"{state.gone}{after}", f"{state.gone}{after}")
    if state.finished:
        return (f"left the test{after}", f"left the test{after}")
    answers = missed.kind is Kind.ANSWER
    never = "has not answered" if answers else f"never came to {missed.brief}"
    asking = under_way(state.calls)
    if asking is not None and asking.kind is Kind.ANSWER:
        where = f"{asking}{asking.at}"
        return (f"{never}: it waits in {where}", f"{never}: they wait in {where}")
    if not state.at:
        return (never, never)
    return (f"{never}: it is at {state.at}", f"{never}: they are at {state.at}")


def _after(state: RankState, missed: Call) -> str:
    """The last call of the rank on the group in which it is missed, else its last call."""
    ended = [c for c in state.calls if c.kind not in _SAYS_NOTHING]
    same = [c for c in ended if c.signature.group_key == missed.signature.group_key]
    last = (same or ended)[-1:]
    return f" after {last[0]}" if last else ""


# What a rank did last is said by other calls than these.
_SAYS_NOTHING = frozenset({Kind.STORE, Kind.SETTING, Kind.MAKING, Kind.ENDING, Kind.LAYOUT})


def _elsewhere(by_rank: Mapping[int, RankState], waiting: Mapping[int, Waiting]) -> Explanation | None:
    """Ranks that wait in different calls, of which each waits for the others."""
    if len(waiting) < 2 or all(w.call.kind is Kind.STORE for w in waiting.values()):
        return None
    same = alike(waiting, lambda rank: call_text(waiting[rank].call))
    sides = sorted(same, key=lambda side: (-len(side[1]), side[1][0]))
    if len(sides) < 2:
        return None
    majority = len(sides[0][1]) > len(waiting) - len(sides[0][1])
    odd = [rank for _, ranks in sides[1:] for rank in ranks] if majority else []
    decide = set(decisive(waiting))
    calls = {rank: state.calls for rank, state in by_rank.items()}
    misspelt = {rank for rank, each in waiting.items() if set_instead_text(calls, each.call)}
    ordered = sorted(sides, key=lambda side: (not misspelt & set(side[1]), not decide & set(side[1])))
    if majority:
        ordered = [*sides[1:], sides[0]]
    parts = [
        f"{verb_of(ranks, 'waits', 'wait')} in {waiting[ranks[0]].call}{waiting[ranks[0]].call.at}"
        f"{set_instead_text(calls, waiting[ranks[0]].call)}"
        for _, ranks in ordered
    ]
    return Explanation("; ".join(parts), tuple(sorted(odd)))


def _unanswered(states: Sequence[RankState]) -> Explanation | None:
    """Ranks that wait for workers of RPC, where all do that are left: who is odd, nobody can say."""
    left = [s for s in states if not (s.finished or s.gone)]
    calls = [call for s in left if (call := under_way(s.calls)) and call.kind in (Kind.ANSWER, Kind.WORKERS)]
    if not calls or len(calls) < len(left):
        return None
    waits = [Waiting(s.rank, call, ()) for s, call in zip(left, calls, strict=True)]
    return Explanation(waits_text(waits), ())


# -- keys that nobody sets


def _are_known(each: Waiting, by_rank: Mapping[int, RankState]) -> bool:
    """Whether a rank waits for keys of which it is known who sets them."""
    return each.call.kind is Kind.STORE and len(each.waits_for) < len(by_rank) - 1


def _unset(by_rank: Mapping[int, RankState], waiting: Mapping[int, Waiting]) -> Explanation | None:
    """Ranks that have left, or gone past where others set theirs, and whose own key another waits for."""
    calls = {rank: state.calls for rank, state in by_rank.items()}
    for each in waiting.values():
        if not _are_known(each, by_rank):
            continue
        gone = [rank for rank in each.waits_for if by_rank[rank].finished or by_rank[rank].gone]
        texts = {rank: _state_text(by_rank[rank], each.call) for rank in gone}
        if not gone:
            gone = [rank for rank in gone_past(calls, each) if rank in waiting]
            texts = {rank: _waits_already(waiting[rank].call) for rank in gone}
        if gone:
            told = "; ".join(verb_of(ranks, *text) for text, ranks in alike(gone, texts.__getitem__))
            waits = [each, *(w for w in waiting.values() if w is not each and w.rank not in gone)]
            text = f"{told} and never set what {ranks_text([each.rank])} waits for; {waits_text(waits)}"
            return Explanation(text, tuple(gone))
    return None


def _waits_already(call: Call) -> tuple[str, str]:
    return f"waits in {call.brief}{call.at}", f"wait in {call.brief}{call.at}"


def _store(
    calls: CallsByRank, by_rank: Mapping[int, RankState], waiting: Mapping[int, Waiting]
) -> Explanation | None:
    stores = [w for w in waiting.values() if w.call.kind is Kind.STORE]
    if not stores:
        return None
    elsewhere = [s for s in by_rank.values() if s.rank not in waiting and not (s.finished or s.gone)]
    nobody_left = not elsewhere and len(stores) < len(by_rank)
    unset = f"{waits_text(stores)}, {unset_text(calls, stores[0].call, nobody_left=nobody_left)}"
    if elsewhere:
        where = "; ".join(
            f"rank {s.rank} " + (f"is at {s.at}" if s.at else "gave no stack") for s in elsewhere
        )
        return Explanation(f"{where}; {unset}", tuple(s.rank for s in elsewhere))
    return Explanation(unset, tuple(w.rank for w in stores))
