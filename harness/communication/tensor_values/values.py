"""``CallValues``: the tensors that a rank gave to a call and got from it, and the file where they stand.

A rank appends a record to its file when a call begins, with what it gives, and another when the call has
ended, with what it got; so what a rank has written survives its death. A record is a head of two lengths, a
text in JSON, and the tensors' elements one after the other: in row-major order, in the bytes that torch has
for them, whatever the dtype. ``element_types.py`` makes numbers of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any

from harness.communication_call import Call, call_from_json, to_json

# Bytes of the JSON and of the elements behind it.
_HEAD = Struct("<IQ")

# Why a call's tensors are not there.
TOO_LARGE = "too large"
NO_PLAIN_TENSOR = "of sparse, quantized or other special tensors"
STRIDED = "of tensors that are not contiguous"
WRITTEN = "with memory that was written or shared before their end"
UNSEEN_END = "never seen to end"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A dense tensor: its dtype ("float32"), its shape, and its elements in row-major order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def elements(self) -> int:
        """The number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True)
class CallValues:
    """What one rank gave to a call (``inputs``) and got (``outputs``).

    ``operation`` is the backend's, of which the user's call may have several. ``outputs`` is None where the
    call was not seen to end. ``why_not`` says why tensors are missing, or mean nothing; "" where they are
    good. ``factor`` is PREMUL_SUM's. ``source`` is the member that a receive from any source heard.
    """

    call: Call
    operation: str
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] | None = None
    raised: bool = False
    why_not: str = ""
    factor: float | None = None
    source: int | None = None


ValuesByRank = Mapping[int, Sequence[CallValues]]


def begun(number: int, values: CallValues) -> bytes:
    """The record of a call's begin; ``number`` is the call's in its file."""
    told = {
        "begin": number,
        "operation": values.operation,
        "call": to_json(values.call),
        "why_not": values.why_not,
        "factor": values.factor,
    }
    return _record(told, values.inputs)


def ended(
    number: int,
    outputs: Sequence[Tensor] = (),
    *,
    raised: bool = False,
    why_not: str = "",
    source: int | None = None,
) -> bytes:
    """The record of a call's end."""
    told = {"end": number, "raised": raised, "why_not": why_not, "source": source}
    return _record(told, outputs)


def _record(told: dict[str, Any], tensors: Sequence[Tensor]) -> bytes:
    told["tensors"] = [[t.dtype, t.shape, len(t.data)] for t in tensors]
    text = json.dumps(told, separators=(",", ":")).encode()
    elements = [t.data for t in tensors]
    return b"".join([_HEAD.pack(len(text), sum(map(len, elements))), text, *elements])


def read(data: bytes) -> tuple[CallValues, ...]:
    """The calls of a rank's file in the order in which they began; what is cut off at its end is left out."""
    found: dict[int, CallValues] = {}
    for told, tensors in _records(data):
        if "begin" in told:
            found[told["begin"]] = CallValues(
                call_from_json(told["call"]),
                told["operation"],
                tensors,
                why_not=told["why_not"],
                factor=told["factor"],
            )
        else:
            before = found[told["end"]]
            found[told["end"]] = replace(
                before,
                outputs=None if told["raised"] else tensors,
                raised=told["raised"],
                why_not=before.why_not or told["why_not"],
                source=told["source"],
            )
    return tuple(found.values())


def _records(data: bytes) -> Iterator[tuple[dict[str, Any], tuple[Tensor, ...]]]:
    at = 0
    while at + _HEAD.size <= len(data):
        text, elements = _HEAD.unpack_from(data, at)
        start = at + _HEAD.size
        at = start + text + elements
        if at > len(data):
            return
        told = json.loads(data[start : start + text])
        yield told, tuple(_tensors(told["tensors"], data, start + text))


def _tensors(told: Iterable[Any], data: bytes, at: int) -> Iterator[Tensor]:
    for dtype, shape, length in told:
        yield Tensor(dtype, tuple(shape), data[at : at + length])
        at += length


def read_directory(path: str) -> dict[int, tuple[CallValues, ...]]:
    """The calls of all ranks by rank: of the directory's files, which have the ranks' numbers for names."""
    found = {}
    for name in sorted(os.listdir(path), key=int):
        with open(os.path.join(path, name), "rb") as file:
            found[int(name)] = read(file.read())
    return found


class ValueFile:
    """A rank's file, opened for each record, so that neither a leak of descriptors nor a fork matters."""

    def __init__(self, directory: str, rank: int) -> None:
        self._path = os.path.join(directory, str(rank))

    def append(self, record: bytes) -> None:
        """Writes a record."""
        with open(self._path, "ab", buffering=0) as file:
            view = memoryview(record)
            while view:
                view = view[file.write(view) :]
