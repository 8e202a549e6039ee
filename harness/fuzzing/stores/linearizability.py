"""Whether calls that overlapped in time are linearizable: Wing and Gong's search, with Lowe's memory.

Each call took effect, if the store is right, at one moment between its beginning and its end. So there is an
order of the calls of a key that keeps apart what did not overlap, and in which the model gives what each call
gave. Keys are looked at one by one, which is enough: linearizability is local (Herlihy and Wing, 1990).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.fuzzing.stores.model import TIMEOUT, Cell, call


@dataclass(frozen=True)
class Event:
    """One call of a client: when it began and ended, in nanoseconds of a clock that all clients share."""

    client: int
    began: int
    ended: int
    method: str
    arguments: tuple[Any, ...]
    result: Any


def contradiction(events: Iterable[Event]) -> tuple[str, list[Event]] | None:
    """The first key whose calls have no order that explains them, with these calls; None if all have one."""
    by_key: dict[str, list[Event]] = {}
    for each in events:
        for key, one in _of_one_key(each):
            by_key.setdefault(key, []).append(one)
    return next(((key, own) for key, own in sorted(by_key.items()) if not linearizable(own)), None)


def linearizable(events: list[Event], start: Cell = Cell()) -> bool:  # noqa: B008 - a frozen value
    """Whether some order of the calls of one key gives what they gave, from a cell on."""
    events = sorted(events, key=lambda each: each.began)
    seen: set[tuple[int, Cell]] = set()
    reached = [(0, start)]  # the calls that took effect, a bit each, and what they left
    everything = (1 << len(events)) - 1
    while reached:
        done, cell = reached.pop()
        if done == everything:
            return True
        if (done, cell) in seen:
            continue
        seen.add((done, cell))
        left = [n for n in range(len(events)) if not done >> n & 1]
        first_end = min(events[n].ended for n in left)
        for n in left:
            if events[n].began > first_end:
                break  # this call and those after it began when another had ended, which has to come first
            after, result = call(cell, events[n].method, events[n].arguments)
            if result == events[n].result:
                reached.append((done | 1 << n, after))
    return False


def _of_one_key(each: Event) -> Iterator[tuple[str, Event]]:
    """A call as calls of single keys: those of several keys promise no more than that."""

    def one(method: str, result: Any, *arguments: Any) -> Event:
        return Event(each.client, each.began, each.ended, method, arguments, result)

    if each.method == "multi_set":
        for key, value in zip(*each.arguments, strict=True):
            yield key, one("set", None, value)
    elif each.method == "multi_get":
        if each.result != TIMEOUT:  # which of the keys was not there is not known
            for key, value in zip(each.arguments[0], each.result, strict=True):
                yield key, one("get", value)
    elif each.method in ("check", "wait"):
        (key,) = each.arguments[0]
        yield key, one(each.method, each.result)
    else:
        key, *rest = each.arguments
        yield key, one(each.method, each.result, *rest)
