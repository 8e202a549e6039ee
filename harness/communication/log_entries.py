"""``LoggedCalls``: the calls that entries of a rank's log tell, with the texts to which they point. Pure.

A test may have overwritten the log: an entry that no rank writes is none, and a text that is none of the
rank's is a signature "?". The same texts have the same object, for all ranks and tests.

Most tests pass with the same calls on all ranks. ``all_alike`` sees that in the bytes, and the calls are made
only when somebody looks at them: their signatures are what takes the time.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from struct import Struct
from typing import Any, overload

from harness.communication.record.arguments import KINDS
from harness.communication.record.signatures import WITH_COUNTS, signature_of
from harness.communication_call import Call, Kind, Signature, signature_from_json
from harness.field_checks import LARGEST_S

# Offsets of signature and place; sequence, number; flags, threads; offset of the group; start, wait, end.
Entry = tuple[int, int, int, int, int, int, int, float, float, float]
OWN_WORK, UNSEEN, BOUNDED, RAISED, REFUSED, BY_LIBRARY = _FLAGS = (1, 2, 4, 8, 16, 32)
# The fields of a call for each sum of flags, in the order of the flags.
_TOLD = tuple(tuple(bool(told & flag) for flag in _FLAGS) for told in range(64))
LENGTH = Struct("=I")  # of a text, before it
# The offset of no text: where there was no room for another one, calls are written down without.
NO_TEXT = 0
# What reading a text raises that is no signature: the test may have overwritten the log.
_NO_SIGNATURE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


class LoggedCalls(Sequence[Call]):
    """The calls of entries, those left out that no rank writes; equal to a sequence of the same calls."""

    __slots__ = ("_entries", "_made", "_texts")

    def __init__(self, entries: Iterable[Entry], texts: bytes) -> None:
        self._entries = [
            entry
            for entry in entries
            if 0.0 < (started := entry[7]) <= LARGEST_S
            and (entry[8] == 0.0 or started <= entry[8] <= LARGEST_S)
            and (entry[9] == 0.0 or started <= entry[9] <= LARGEST_S)
        ]
        self._texts = texts
        self._made: tuple[Call, ...] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> Call: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Call, ...]: ...

    def __getitem__(self, index: int | slice) -> Call | tuple[Call, ...]:
        return self._calls()[index]

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls())

    def __eq__(self, other: object) -> bool:
        return self._calls() == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._calls())

    def __repr__(self) -> str:
        return repr(self._calls())

    def _calls(self) -> tuple[Call, ...]:
        if self._made is None:
            self._made = tuple(self._make())
        return self._made

    def _make(self) -> Iterator[Call]:
        texts = self._texts
        signatures: dict[tuple[int, int], Signature] = {}
        places: dict[int, str] = {}
        for signature, place, sequence, number, flags, threads, group, *times in self._entries:
            made = signatures.get((signature, group))
            if made is None:
                made = _signature(_text(texts, signature), _text(texts, group))
                signatures[signature, group] = made
            at = places.get(place)
            if at is None:
                at = places[place] = place_of(texts, place)
            started, waiting, ended = times
            told = _TOLD[flags % len(_TOLD)]
            yield Call(made, sequence, number, started, waiting or None, ended or None, at, threads, *told)

    def compared(self) -> dict[bytes, list[tuple[bytes, int]]] | None:
        """Text and sequence of each call that peers must have alike, in order, by the text of its group.

        None where one of them has not ended, or may be wrong although all ranks have it.
        """
        found: dict[bytes, list[tuple[bytes, int]]] = {}
        known: dict[tuple[int, int], tuple[bytes, bytes] | None] = {}
        for signature, _, sequence, _, _, _, group, _, _, ended in self._entries:
            if (signature, group) in known:
                texts = known[signature, group]
            else:
                texts = _text(self._texts, signature), _text(self._texts, group)
                matters = _is_compared(*texts)
                if matters is None:
                    return None
                known[signature, group] = texts = texts if matters else None
            if texts is not None:
                if not ended:
                    return None
                text, of_group = texts
                found.setdefault(of_group, []).append((text, sequence))
        return found


def all_alike(calls: Mapping[int, Sequence[Call]]) -> bool:
    """Whether nothing can be wrong: all members of each group have logged the same calls, and each has ended.

    False also where it cannot be seen so easily.
    """
    first: dict[bytes, list[tuple[bytes, int]]] = {}
    ranks: dict[bytes, list[int]] = {}
    for rank, mine in calls.items():
        compared = mine.compared() if isinstance(mine, LoggedCalls) else None
        if compared is None:
            return False
        for group, called in compared.items():
            if first.setdefault(group, called) != called:
                return False
            ranks.setdefault(group, []).append(rank)
    return all(len(having) == len(calls) or _are_members(having, group) for group, having in ranks.items())


def _are_members(ranks: Sequence[int], group: bytes) -> bool:
    """Whether these are the members of a group, by its text; "" is the group of calls that have none."""
    try:
        return bool(group) and sorted(_of_group(group).members) == sorted(ranks)
    except _NO_SIGNATURE:
        return False


# What is nowhere compared: ranks need not have the same, and rank 0 alone sets many a key.
_UNCOMPARED = frozenset({Kind.ENDING, Kind.STORE, Kind.SETTING, Kind.IN_CPP, Kind.ANSWER, Kind.WORKERS})
# What may be wrong although all ranks have the same.
_ONE_SIDED = frozenset({Kind.SEND, Kind.RECEIVE, Kind.FINDING})
_KINDS = {kind.value.encode(): kind for kind in Kind}
_LOOKED_AT = frozenset(operation.encode() for operation in (*KINDS, *WITH_COUNTS))
# A gathering of equal tensors, one from each: where all are written down as the first one is.
_EVEN = re.compile(rb'\["all_gather","\w+",\[(\[[^"]*"\w+",\d+\])\],\[\1(?:,\1)*\],')
# A quote within a text of JSON has a backslash before it, so these match names of fields alone.
_KIND = re.compile(rb'"kind": ?"([^"\\]*)"')
_COUNTS = re.compile(rb'"(?:sent|received)":')


def _is_compared(text: bytes, group: bytes) -> bool | None:
    """Whether ranks must have a call alike; None where it may be wrong although they have."""
    if text.startswith(b'["'):
        if text[2 : text.find(b'"', 2)] not in _LOOKED_AT or _EVEN.match(text):
            return True
        made = _signature(text, group)
        return None if made.kind in _ONE_SIDED or made.sent or made.received else True
    found = _KIND.search(text)
    kind = _KINDS.get(found[1]) if found is not None else Kind.COLLECTIVE
    if kind in _ONE_SIDED or _COUNTS.search(text):
        return None
    return kind not in _UNCOMPARED


def place_of(texts: bytes, offset: int) -> str:
    """The text at an offset, as it can be shown; "" for none."""
    return _place(_text(texts, offset))


def _text(texts: bytes, offset: int) -> bytes:
    if offset == NO_TEXT or offset + LENGTH.size > len(texts):
        return b""
    (length,) = LENGTH.unpack_from(texts, offset)
    return texts[offset + LENGTH.size : offset + LENGTH.size + length]


@functools.lru_cache(maxsize=4096)
def _signature(text: bytes, group: bytes) -> Signature:
    """The signature of its JSON, "?" where it is none; the same object for the same texts.

    A list is what a call on a group was given, for which ``group`` has the fields of the group.
    """
    try:
        told = text.decode()
        value = json.loads(told)
        if isinstance(value, list):
            made = signature_of(value, _of_group(group))
            told += group.decode()
        else:
            made = signature_from_json(value)
    except _NO_SIGNATURE:
        return Signature("?")
    # In JSON what cannot be printed is escaped, or stands there as it is. The usual case is neither.
    return made if "\\" not in told and told.isprintable() else _shown(made)


@functools.lru_cache(maxsize=256)
def _of_group(text: bytes) -> Signature:
    return signature_from_json(json.loads(text.decode()))


def _shown(signature: Signature) -> Signature:
    """The signature with texts that can be printed."""
    names = ("operation", "group", "made_at", "key", "tensors", "reduce_op")
    printable: dict[str, Any] = {name: _printable(getattr(signature, name)) for name in names}
    return replace(signature, **printable)


@functools.lru_cache(maxsize=4096)
def _place(text: bytes) -> str:
    return _printable(text.decode(errors="replace"))


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
