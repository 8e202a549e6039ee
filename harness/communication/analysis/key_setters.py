"""Which rank is to set the key for which another waits, where the keys' numbers tell. Pure.

Ranks often announce themselves by keys that end in their own numbers: ``store.set(f"ready/{rank}", ...)``.
Where some rank has set such a key for itself and none for another, the rest of these keys are theirs whose
numbers they end in. It is a guess from what others did: good enough to say who is odd, never part of a proof.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from harness.communication.analysis.matching import CallsByRank, rows
from harness.communication.analysis.store_keys import names_of
from harness.communication.analysis.wait_graph import Waiting
from harness.communication_call import Call, Kind

_NUMBERED = re.compile(r"(.*?)(\d+)", re.DOTALL)


def narrowed(calls: CallsByRank, waiting: Mapping[int, Waiting]) -> dict[int, Waiting]:
    """The same, but a rank that waits for another's own keys waits for those ranks alone."""
    found = dict(waiting)
    for rank, each in waiting.items():
        if each.call.kind is Kind.STORE and not each.call.signature.workers:
            setters = _setters(calls, rank, each.call)
            found[rank] = replace(each, waits_for=setters) if setters else each
    return found


def gone_past(calls: CallsByRank, each: Waiting) -> tuple[int, ...]:
    """Of the ranks for whose own keys another waits, those that will not set them where the others did.

    They are in a collective, or past it, before which every rank that has set its own key did so. () where
    these, and the one that waits, are not more than they: then nobody knows who is odd. Whether the one that
    waits has set its own does not count: it will not come as long as it waits.
    """
    series = {_numbered(name)[0] for name in names_of(each.call)[1:]}
    setting = {
        rank: call.started_s
        for rank, mine in calls.items()
        for call in mine
        if rank != each.rank and call.kind is Kind.SETTING
        if any((s, rank) in map(_numbered, names_of(call)[1:]) for s in series)
    }
    after = [
        row.calls.keys()
        for row in rows(calls)
        if all(set_s < row.calls[rank].started_s for rank, set_s in setting.items() if rank in row.calls)
    ]
    found = [
        owner
        for owner in each.waits_for
        if all(any({owner, rank} <= members for members in after) for rank in setting)
    ]
    return tuple(found) if len(found) <= len(setting) else ()


def _setters(calls: CallsByRank, waits: int, call: Call) -> tuple[int, ...]:
    """The ranks that are to set the unset ones of the keys for which a call waits; () where nobody knows."""
    setters: dict[str, set[int]] = {}
    for rank, each in ((rank, each) for rank, mine in calls.items() for each in mine):
        for name in names_of(each)[1:] if each.kind is Kind.SETTING else ():
            setters.setdefault(name, set()).add(rank)
    found = set()
    for name in names_of(call)[1:]:
        if name in setters:
            continue
        series, number = _numbered(name)
        others = {n: by for other, by in setters.items() for s, n in (_numbered(other),) if s == series}
        own = bool(others) and all(by == {n} for n, by in others.items())
        if not own or number == waits or number not in calls:
            return ()
        found.add(number)
    return tuple(sorted(found))


def _numbered(name: str) -> tuple[str, int]:
    """A key without the number at its end, and the number; -1 for none."""
    found = _NUMBERED.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, -1)
