"""Texts about ranks that wait: who waits in what, those that do the same together. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from harness.communication.analysis.difference_text import MOST_SIDES, verb_of
from harness.communication.analysis.wait_graph import Waiting
from harness.communication_call import Call, Kind

K = TypeVar("K")


def waits_text(waits: Sequence[Waiting], told: str = "") -> str:
    """Who waits in what: ``ranks 1-3 wait in all_reduce #6 (test_x.py:51)``; ``told``: the rest of the line.

    Groups are named that ``told`` does not name; where many ranks wait in as many groups, none is.
    """
    by_rank = {w.rank: w.call for w in waits}
    sides = alike(by_rank, lambda rank: call_text(by_rank[rank], told))
    if len(sides) > MOST_SIDES:
        sides = alike(by_rank, lambda rank: f"{by_rank[rank].name}{by_rank[rank].at}")
    return "; ".join(f"{verb_of(ranks, 'waits', 'wait')} in {text}" for text, ranks in sides)


def call_text(call: Call, told: str = "") -> str:
    """A call and the user's line; with its group, unless that is the default group or ``told`` names it."""
    known = call.kind is Kind.MAKING or call.signature.group_text in told
    return f"{call.name if known else call.brief}{call.at}"


def alike(ranks: Iterable[int], text: Callable[[int], K]) -> list[tuple[K, list[int]]]:
    """The ranks by what ``text`` says of them, in the order of their lowest."""
    found: dict[K, list[int]] = defaultdict(list)
    for rank in sorted(ranks):
        found[text(rank)].append(rank)
    return list(found.items())
