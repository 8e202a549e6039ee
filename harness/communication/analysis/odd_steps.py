"""``odd_step``: the call that one rank alone made, or left out, before ranks came apart. Pure.

A call too many is often no different from the one that the others make in its place: it meets theirs, and
every later one meets the one behind it, until the last, or one of another kind, meets none. That one is where
ranks wait; what was wrong stands at another line. Ranks that run one program, however, make the same calls at
the same lines: if, but for some calls of one rank, they do so up to the end, these calls are the odd ones; so
are calls at lines where no other rank ever comes, in place of calls at lines where all do.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.communication.analysis.difference_text import Explanation
from harness.communication.analysis.matching import CallsByRank
from harness.communication.call_log import ENTRIES
from harness.communication_call import Call, Kind

# The most calls in a row that a rank may have made alone, or left out, to be told; and up to how many it is
# enough that one step behind them is alike: one forward pass of DDP is two broadcasts.
_MOST, _SURE = 8, 2


@dataclass(frozen=True, slots=True)
class OddStep:
    """``rank`` made these ``calls`` of its own alone, or, if ``left_out``, not these of the others."""

    rank: int
    calls: Sequence[Call]
    left_out: bool

    def __str__(self) -> str:
        first, more = self.calls[0], len(self.calls) - 1
        verb = "left out" if self.left_out else "alone called"
        others = f" and the {'one' if more == 1 else f'{more}'} behind it" if more else ""
        return f"rank {self.rank} {verb} {first.brief}{first.at}{others}"


def odd_step(calls: CallsByRank, group: object) -> OddStep | None:
    """The first step of one rank alone in the group of this key, where all else is alike; None for none.

    Of two ranks the one that made more calls is told. None also where two ranks may be the odd one, and where
    a rank has made more calls than its log holds: then its first ones are unknown.
    """
    if any(len(mine) >= ENTRIES for mine in calls.values()):
        return None
    ways = {rank: way for rank, mine in calls.items() if (way := _way(mine, group))}
    if len(ways) < 2:
        return None
    found = [step for rank in ways if (step := _step_of(rank, ways)) is not None]
    if len(ways) == 2:
        found = [step for step in found if not step.left_out]
    return found[0] if len(found) == 1 else None


def _way(mine: Sequence[Call], group: object) -> list[Call]:
    """The collectives of a rank in a group, in the order in which the backend was asked for them."""
    way = [c for c in mine if c.kind is Kind.COLLECTIVE and c.signature.group_key == group and not c.refused]
    return sorted(way, key=lambda call: call.sequence)


def _turn(call: Call) -> object:
    """What calls have in common that ranks make at the same step of the same program."""
    return (call.signature.operation, call.place)


def _step_of(rank: int, ways: Mapping[int, Sequence[Call]]) -> OddStep | None:
    """What this rank alone did or left out, if all others have one way in common."""
    mine, others = ways[rank], [way for each, way in ways.items() if each != rank]
    theirs = max(others, key=len)
    if any(not _alike(way, theirs) for way in others):
        return None
    at = next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if _turn(a) != _turn(b)), None)
    if at is None:
        return None
    for count in range(1, _MOST + 1):
        more = _alike_for(mine[at + count :], theirs[at:])
        less = _alike_for(mine[at:], theirs[at + count :])
        other = _alike_for(
            mine[at + count :], theirs[at + count :]
        )  # in place of theirs, as a branch by rank
        most = max(more, less)
        if most >= (count if count > _SURE else 1):
            if more == less or other >= most:
                return None
            return OddStep(rank, (theirs if less > more else mine)[at : at + count], left_out=less > more)
    return _at_lines_of_its_own(rank, mine[at:], theirs[at:], ways)


def _at_lines_of_its_own(
    rank: int, mine: Sequence[Call], theirs: Sequence[Call], ways: Mapping[int, Sequence[Call]]
) -> OddStep | None:
    """The calls with which a rank turned off to lines where no other comes, while those came where it comes.

    Where each side comes to lines of its own the program branches by rank, and that may be right.
    """
    known = {_turn(call) for each, way in ways.items() if each != rank for call in way}
    if _turn(theirs[0]) not in map(_turn, ways[rank]):
        return None
    alone = list(itertools.takewhile(lambda call: _turn(call) not in known, mine))
    return OddStep(rank, alone, left_out=False) if 0 < len(alone) < len(mine) else None


def _alike_for(one: Sequence[Call], other: Sequence[Call]) -> int:
    """For how many steps both go the same way, up to where one ends; 0 where they come apart before."""
    return min(len(one), len(other)) if _alike(one, other) else 0


def _alike(one: Sequence[Call], other: Sequence[Call]) -> bool:
    return all(_turn(a) == _turn(b) for a, b in zip(one, other, strict=False))


def with_odd_step(found: Explanation, calls: CallsByRank) -> Explanation:
    """The same, with what one rank did alone before in the group of which it tells, unless it tells that."""
    step = odd_step(calls, found.group) if found.group is not None else None
    if step is None or f"{step.calls[0].brief}{step.calls[0].at}" in found.text:
        return found
    return replace(found, text=f"{found.text}; before that {step}")
