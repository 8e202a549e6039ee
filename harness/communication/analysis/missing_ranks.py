"""``missing_ranks``: who does not come to a collective in which others wait, and which side is odd. Pure.

A collective that most members have called is missed by the others; one that only a minority has called, while
nobody else ever will, is one too many. A member that is held up by something else is not to blame for either.
A rank is decisive if all others could go on as soon as it did.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.communication.analysis.matching import CallsByRank, Row, difference, rows
from harness.communication.analysis.wait_graph import RankView, Waiting
from harness.communication_call import Kind


@dataclass(frozen=True, slots=True)
class MissingRanks:
    """A collective that will never be complete, the members that are missing, and the odd ones.

    ``superfluous``: those who have called it are odd, and else the missing ones. ``disputed``: other
    collectives tell it otherwise.
    """

    row: Row
    missing: tuple[int, ...]
    superfluous: bool
    disputed: bool = False

    @property
    def odd(self) -> tuple[int, ...]:
        """The odd ranks."""
        return tuple(sorted(self.row.calls)) if self.superfluous else self.missing

    @property
    def doubt(self) -> int:
        """How many odd ranks there are for the others: the fewer, the surer."""
        others = self.missing if self.superfluous else self.row.calls
        return len(self.odd) - len(others)


def missing_ranks(
    calls: CallsByRank, waiting: Mapping[int, Waiting], left: Collection[int]
) -> MissingRanks | None:
    """The first collective that tells who is odd, or the surest, where several tell it otherwise; else None.

    ``left`` are the ranks that have come to the end of their test, or are gone.
    """
    found = [*_missing_ranks(calls, waiting, left)]
    found = [each for each in found if not _await_keys(each.odd, waiting)] or found
    if len({each.odd for each in found}) > 1:
        order = {id(each): _order(each, calls, waiting) for each in found}
        found = [each for each in found if order[id(each)] is not _Order.AS_OTHERS] or found
        found = [each for each in found if order[id(each)] is _Order.AGAINST_OTHERS] or found
    if len({each.odd for each in found}) > 1:
        least = min(each.doubt for each in found)
        found = [replace(each, disputed=True) for each in found if each.doubt == least]
    return found[0] if len({each.odd for each in found}) == 1 else None


def _missing_ranks(
    calls: CallsByRank, waiting: Mapping[int, Waiting], left: Collection[int]
) -> Iterator[MissingRanks]:
    """All collectives of which one side is odd, in the order in which they began."""
    needs, suspects = needed(waiting), set(decisive(waiting))
    for row in rows(calls):
        stuck = {rank for rank, call in row.calls.items() if rank in waiting and waiting[rank].call is call}
        missing = row.missing()
        if not stuck or not missing or row.first.kind is not Kind.COLLECTIVE:
            continue
        if not all(rank in left or needs.get(rank, frozenset()) & stuck for rank in missing):
            continue
        for ranks, others, superfluous in ((missing, row.calls, False), (row.calls, missing, True)):
            if _are_odd(set(ranks), len(others), suspects):
                yield MissingRanks(row, tuple(missing), superfluous)
                break


def _await_keys(ranks: Collection[int], waiting: Mapping[int, Waiting]) -> bool:
    """Whether these wait for keys that others have yet to set, and so may be held up as their peers."""
    return all(rank in waiting and waiting[rank].call.kind is Kind.STORE for rank in ranks)


class _Order(enum.Enum):
    """How the order of two collectives is on a missing rank: the one in which it waits, the one it misses."""

    UNKNOWN = 0
    AS_OTHERS = 1
    AGAINST_OTHERS = 2


def _order(found: MissingRanks, calls: CallsByRank, waiting: Mapping[int, Waiting]) -> _Order:
    """How the order of the missing ranks, if it is they who are odd, compares with that of other ranks."""
    if found.superfluous or not all(rank in waiting for rank in found.missing):
        return _Order.UNKNOWN
    own = [row for row in rows(calls) if any(row.calls.get(r) is waiting[r].call for r in found.missing)]
    if own and all(_is_before(row, found.row) for row in own):
        return _Order.AS_OTHERS
    return _Order.AGAINST_OTHERS if any(_is_before(found.row, row) for row in own) else _Order.UNKNOWN


def _is_before(row: Row, other: Row) -> bool:
    """Whether a rank that takes part in two collectives began the one before the other."""
    both = row.calls.keys() & other.calls.keys()
    return any(row.calls[rank].started_s < other.calls[rank].started_s for rank in both)


def _are_odd(ranks: set[int], others: int, suspects: set[int]) -> bool:
    """Whether these are the odd ones: the decisive rank if there is one, else a minority."""
    if len(suspects) == 1:
        return ranks == suspects
    return len(ranks) < others and (not suspects or ranks <= suspects)


def undecided(views: Sequence[RankView], stuck: Sequence[Waiting]) -> bool:
    """Whether ranks that may still come decide who is odd in a collective where others are stuck.

    So it is while neither side, those that have called it and those that never will, or those that called one
    thing and those that called another, is larger by more ranks than may come.
    """
    come = {view.rank for view in views if not view.settled} - {each.rank for each in stuck}
    own = {id(each.call) for each in stuck}
    for row in rows({view.rank: view.calls for view in views}) if come else ():
        if any(id(call) in own for call in row.calls.values()) and _is_open(row, come):
            return True
    return False


def _is_open(row: Row, come: set[int]) -> bool:
    """Whether these ranks, of which not all are members, may turn the majority of a collective."""
    missing = set(row.missing())
    coming, found = missing & come, difference(row)
    if not coming or (found is not None and found.what == "parts"):
        return False
    sides = [len(ranks) for ranks, _ in found.sides] if found else [len(row.calls), len(missing - coming)]
    second, most = sorted(sides)[-2:]
    return most - second <= len(coming)


def decisive(waiting: Mapping[int, Waiting]) -> list[int]:
    """The ranks of which each, if it went on or had come, would let all others that wait go on."""
    wanted = {rank for each in waiting.values() for rank in each.waits_for}
    return [rank for rank in sorted({*waiting, *wanted}) if _freed_by(rank, waiting) >= waiting.keys()]


def _freed_by(rank: int, waiting: Mapping[int, Waiting]) -> set[int]:
    free = {rank}
    while True:
        more = {r for r, each in waiting.items() if r not in free and _is_free(each, free, waiting)}
        if not more:
            return free
        free |= more


def _is_free(each: Waiting, free: Collection[int], waiting: Collection[int]) -> bool:
    """Whether a rank goes on: one that waits for a key, which anybody may set, when all do that can."""
    s = each.call.signature
    not_done = [rank for rank in each.waits_for if rank in waiting]
    if s.kind is Kind.STORE and not_done:
        return all(rank in free for rank in not_done)
    enough = any if s.kind is Kind.STORE or (s.kind is Kind.RECEIVE and s.peer is None) else all
    return enough(rank in free for rank in each.waits_for)


def needed(waiting: Mapping[int, Waiting]) -> dict[int, frozenset[int]]:
    """For each rank that waits, the ranks that have to go on before it can, over any number of others."""
    found = {rank: frozenset(each.waits_for) for rank, each in waiting.items()}
    while True:
        more = {rank: _with_theirs(ranks, found) for rank, ranks in found.items()}
        if more == found:
            return found
        found = more


def _with_theirs(ranks: Collection[int], found: Mapping[int, frozenset[int]]) -> frozenset[int]:
    return frozenset(ranks).union(*(found.get(rank, frozenset()) for rank in ranks))


def in_a_cycle(waiting: Mapping[int, Waiting]) -> Sequence[int]:
    """The ranks that wait for themselves by way of others, and so not merely for those that do."""
    return [rank for rank, ranks in sorted(needed(waiting).items()) if rank in ranks]
