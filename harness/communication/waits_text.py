"""Texts about ranks that wait: who waits in what, those that do the same together. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from harness.communication.difference_text import verb_of
from harness.communication.wait_graph import Waiting

K = TypeVar("K")


def waits_text(waits: Sequence[Waiting]) -> str:
    """Who waits in what: ``ranks 1-3 wait in all_reduce #6 (test_x.py:51)``."""
    parts = []
    for text, ranks in alike([w.rank for w in waits], lambda rank: call_text(_of(waits, rank))):
        parts.append(f"{verb_of(ranks, 'waits', 'wait')} in {text}")
    return "; ".join(parts)


def _of(waits: Sequence[Waiting], rank: int) -> Waiting:
    return next(w for w in waits if w.rank == rank)


def call_text(waiting: Waiting) -> str:
    """The call in which a rank waits, without its group, and the user's line."""
    return f"{waiting.call.name}{waiting.call.at}"


def alike(ranks: Iterable[int], text: Callable[[int], K]) -> list[tuple[K, list[int]]]:
    """The ranks by what ``text`` says of them, in the order of their lowest."""
    found: dict[K, list[int]] = defaultdict(list)
    for rank in sorted(ranks):
        found[text(rank)].append(rank)
    return list(found.items())
