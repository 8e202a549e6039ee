"""Keys of stores, as different ranks name them: whether a key may be set, who waits at the same place. Pure.

Each store may be one around another, which puts a prefix before the keys that it is given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from harness.communication.analysis.matching import CallsByRank
from harness.communication_call import Call, Kind


def may_be_set(calls: CallsByRank, waiting: Call) -> bool:
    """Whether some rank has set the keys for which a call waits, at any time and maybe by another store."""
    names = {name for mine in calls.values() for c in mine if c.kind is Kind.SETTING for name in names_of(c)}
    keys = names_of(waiting)  # the whole first: several keys in a row, or one with such a name
    return _are_set(keys[:1], names) or _are_set(keys[1:], names)


def workers_of(calls: CallsByRank, waiting: Call) -> list[Call]:
    """The calls for which a store's barrier or server waits, its own included."""
    mine = waiting.signature
    found = (call for each in calls.values() for call in each if call.kind is Kind.STORE)
    alike = (call for call in found if call.signature.operation == mine.operation)
    return [c for c in alike if _may_be_one(names_of(c)[0], names_of(waiting)[0])]


def names_of(call: Call) -> tuple[str, ...]:
    """The names of a store's keys with what the store puts before them: as one name, and each by itself."""
    s = call.signature
    return (s.group + s.key, *(s.group + key for key in s.key.split(", ")))


def _are_set(keys: Iterable[str], names: Collection[str]) -> bool:
    return all(any(_may_be_one(key, name) for name in names) for key in keys)


def _may_be_one(key: str, other: str) -> bool:
    """Whether two ranks may mean the same key: stores put prefixes, which end with a slash, before keys."""
    return key == other or key.endswith(f"/{other}") or other.endswith(f"/{key}")
