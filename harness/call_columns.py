"""``SignatureTable``, ``columns`` and ``calls_of``: the communication calls of a test's record as JSON.

The ranks of a test call the same with the same, and most fields of most calls have their defaults. So there
is a list for each field that is not always at its default, and signatures have lists of their own, in which
each is written once for all ranks: a fifth of the time, and of the size, of an object for each call.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from harness.communication_call import Call, Kind, Signature
from harness.field_checks import checked_columns

_SIGNATURE = "signature"  # the column that has numbers of the table
Columns = Mapping[str, Any]


def _fields(kind: type[Any], *without: str) -> dict[str, tuple[Any, Callable[[Any], Any]]]:
    """The fields of a dataclass in their order: default, and what reads it."""
    fields = (f for f in dataclasses.fields(kind) if f.name not in without)
    return {f.name: (f.default, attrgetter(f.name)) for f in fields}


_OF_CALL, _OF_SIGNATURE = _fields(Call, _SIGNATURE), _fields(Signature)
# What makes the value of a field from that of its JSON, where these are not the same.
_RICH: dict[str, Callable[[Any], Any]] = {"kind": Kind, "members": tuple, "sent": tuple, "received": tuple}


class SignatureTable:
    """The signatures of the calls of one record, each once, by their numbers there."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}  # by id: to compare them takes longer than to write one twice
        self._signatures: list[Signature] = []

    def number(self, signature: Signature) -> int:
        """The number of a signature, a new one for one that was not there yet."""
        found = self._numbers.get(id(signature))
        if found is None:
            found = self._numbers[id(signature)] = len(self._signatures)
            self._signatures.append(signature)
        return found

    def columns(self) -> dict[str, list[Any]]:
        """A list for each field; ``signatures_of`` reverses it."""
        return dict(_written(self._signatures, _OF_SIGNATURE))


def signatures_of(value: Columns) -> dict[int, Signature]:
    """The signatures of a table, by their numbers; KeyError, TypeError or ValueError where they are none."""
    if not value:
        return {}
    read = _read(Signature, value, _OF_SIGNATURE, len(value["operation"]))
    return dict(enumerate(map(Signature, *read)))


def columns(calls: Sequence[Call], table: SignatureTable) -> dict[str, list[Any]]:
    """A rank's calls as lists, the signatures by their numbers in the table; ``calls_of`` reverses it."""
    if not calls:
        return {}
    number = table.number
    return {_SIGNATURE: [number(call.signature) for call in calls], **dict(_written(calls, _OF_CALL))}


def calls_of(value: Columns, signatures: Mapping[int, Signature]) -> tuple[Call, ...]:
    """The calls of a rank's columns; KeyError, TypeError or ValueError where they are none."""
    if not value:
        return ()
    numbers = value[_SIGNATURE]
    read = _read(Call, value, _OF_CALL, len(numbers))
    return tuple(map(Call, map(signatures.__getitem__, numbers), *read))


def _written(
    values: Sequence[Any], fields: Mapping[str, tuple[Any, Callable[[Any], Any]]]
) -> Iterator[tuple[str, list[Any]]]:
    for name, (default, get) in fields.items():
        column = [*map(get, values)]
        if column.count(default) < len(column):
            yield name, column


def _read(
    kind: type[Any], value: Columns, fields: Mapping[str, tuple[Any, Callable[[Any], Any]]], length: int
) -> list[Any]:
    """For each field its values in JSON's form or better; columns that nobody knows are left out."""
    known = checked_columns(kind, {name: value[name] for name in fields if name in value}, length)
    return [
        map(_RICH[name], known[name])
        if name in known and name in _RICH
        else known.get(name) or itertools.repeat(default)
        for name, (default, _) in fields.items()
    ]
