"""``calls_of``: the calls that entries of a rank's log tell, with the texts to which they point. Pure.

A test may have overwritten the log: an entry that no rank writes is none, and a text that is none of the
rank's is a signature "?". The same texts have the same object, for all ranks and tests.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from struct import Struct
from typing import Any

from harness.communication.signatures import signature_of
from harness.communication_call import Call, Signature, signature_from_json
from harness.field_checks import LARGEST_S

# Offsets of signature and place; sequence, number; flags, threads; offset of the group; start, wait, end.
Entry = tuple[int, int, int, int, int, int, int, float, float, float]
OWN_WORK, UNSEEN, BOUNDED, RAISED, REFUSED, BY_LIBRARY = _FLAGS = (1, 2, 4, 8, 16, 32)
# The fields of a call for each sum of flags, in the order of the flags.
_TOLD = tuple(tuple(bool(told & flag) for flag in _FLAGS) for told in range(64))
LENGTH = Struct("=I")  # of a text, before it
# The offset of no text: where there was no room for another one, calls are written down without.
NO_TEXT = 0


def calls_of(entries: Iterable[Entry], texts: bytes) -> Iterator[Call]:
    """The calls of entries; those that no rank writes are left out."""
    signatures: dict[tuple[int, int], Signature] = {}
    places: dict[int, str] = {}
    for signature, place, sequence, number, flags, threads, group, started, waiting, ended in entries:
        if not (
            0.0 < started <= LARGEST_S
            and (waiting == 0.0 or started <= waiting <= LARGEST_S)
            and (ended == 0.0 or started <= ended <= LARGEST_S)
        ):
            continue
        made = signatures.get((signature, group))
        if made is None:
            made = _signature(_text(texts, signature), _text(texts, group))
            signatures[signature, group] = made
        at = places.get(place)
        if at is None:
            at = places[place] = place_of(texts, place)
        times = started, waiting or None, ended or None
        yield Call(made, sequence, number, *times, at, threads, *_TOLD[flags % len(_TOLD)])


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
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
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
