"""``outlier``: the rank whose calls went another way than those of most ranks. Pure.

Where two ranks wait for each other, each by a call of its own, no call tells which of them is odd. Ranks that
run one program, however, make the same calls at the same lines, up to where one of them turns off.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import zip_longest

from harness.communication.analysis.matching import CallsByRank
from harness.communication.call_log import ENTRIES
from harness.communication_call import Call


def outlier(calls: CallsByRank) -> int | None:
    """The one rank of which a call is another one than that of most ranks that have come as far.

    None where several turn off at once, where most ranks have no way in common, and where a rank has made
    more calls than its log holds, so that its first one is unknown.
    """
    if any(len(mine) >= ENTRIES for mine in calls.values()):
        return None
    ranks = list(calls)
    for step in zip_longest(*(map(_turn, calls[rank]) for rank in ranks)):
        turns: dict[object, list[int]] = defaultdict(list)
        for rank, turn in zip(ranks, step, strict=True):
            if turn is not None:
                turns[turn].append(rank)
        if len(turns) > 1:
            fewest, *others = sorted(turns.values(), key=len)
            return fewest[0] if len(fewest) == 1 and len(others) == 1 and len(others[0]) > 1 else None
    return None


def _turn(call: Call) -> object:
    """What calls have in common that ranks make at the same step of the same program."""
    s = call.signature
    return (s.kind, s.operation, s.group_key, call.place)
