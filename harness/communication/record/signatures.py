"""``signature_of``: what ranks compare of a call, read of what a rank has written down when it made the call.

A rank writes what the call was given, and apart from it the fields of the group, as JSON that is put together
by hand: what stands in its log must be there before the call, and to make a ``Signature`` and encode it takes
a new rank ten times as long. Whoever reads the log makes the signature, once for all ranks and tests.
"""

from __future__ import annotations

import functools
import json
import json.encoder
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.communication.record.arguments import KINDS, REDUCING, ROOTED, Arguments
from harness.communication.record.reduce_operations import name_of
from harness.communication_call import Kind, Signature
from harness.field_checks import LARGEST_NUMBER, checked

_NOT_TOLD = -1  # in a table of counts: nothing goes between these two
# The operations of which a signature may have counts of what goes between members: see ``_must_fit``.
WITH_COUNTS = frozenset({"all_gather", "gather", "scatter", "all_to_all", "all_to_all_single"})
_GROUP_FIELDS = ("group", "members", "made_at", "default", "generation", "backend", "description")
_quoted = json.encoder.encode_basestring_ascii  # what an encoder calls, without its functions


# -- in the rank


def call_text(operation: str, arguments: Arguments, name: str = "") -> str:
    """What a call was given, as JSON; ``name``: it is a part of this call of the user's."""
    a = arguments
    reduce_op = name_of(a.reduce_op) if operation in REDUCING else ""
    return (
        f'["{operation}","{name or operation}",[{_tensors(a.inputs)}],[{_tensors(a.outputs)}],"{reduce_op}",'
        f"{_number(a.root)},{_number(a.peer)},{a.tag},"
        f"{_integers(a.sent)},{_integers(a.received)},{_number(a.timeout_s)}]"
    )


def group_text(
    name: str,
    members: Sequence[int],
    *,
    made_at: str,
    default: bool,
    generation: int,
    timeout_s: float | None,
    backend: str = "",
    description: str = "",
    operation: str = "?",
    kind: Kind = Kind.COLLECTIVE,
) -> str:
    """The signature, as JSON, of a group's making, or with an unknown operation of each call on it."""
    return (
        f'{_head(operation, kind)}"group":{_quoted(name)},"members":{_integers(members)},'
        f'"made_at":{_quoted(made_at)},"default":{"true" if default else "false"},"generation":{generation},'
        f'"backend":{_quoted(backend)},"description":{_quoted(description)},"timeout_s":{_number(timeout_s)}}}'
    )


def ending_text(group: str) -> str:
    """The signature, as JSON, of a group's end; ``group``: its ``group_text`` with an unknown operation."""
    return _head("destroy_process_group", Kind.ENDING) + group.removeprefix(_head("?", Kind.COLLECTIVE))


def store_text(
    operation: str, prefix: str, kind: Kind, key: str, timeout_s: float | None, workers: int
) -> str:
    """The signature, as JSON, of a store's call; see ``Signature`` for what is said of one."""
    return (
        f'{_head(operation, kind)}"group":{_quoted(prefix)},"key":{_quoted(key)},'
        f'"timeout_s":{_number(timeout_s)},"workers":{workers}}}'
    )


def _head(operation: str, kind: Kind) -> str:
    return f'{{"operation":"{operation}","kind":"{kind.value}",'


def _tensors(tensors: Sequence[Any]) -> str:
    try:
        return ",".join([_tensor(t.shape, t.dtype, t.element_size()) for t in tensors])
    except TypeError:  # the sizes of a tensor that is traced may be symbols, which have no hash
        return ",".join([_tensor(tuple(_integers(t.shape)), t.dtype, t.element_size()) for t in tensors])


@functools.lru_cache(maxsize=1024)
def _tensor(shape: Sequence[int], dtype: Any, nbytes: int) -> str:
    return f'[{[*shape]},"{str(dtype).removeprefix("torch.")}",{nbytes}]'


def _integers(values: Iterable[Any]) -> list[int]:
    """As Python's own: in a list those of numpy and torch are not written as numbers."""
    return [*map(int, values)]


def _number(value: float | None) -> str:
    return "null" if value is None else str(value)


# -- for who reads the log


@dataclass(frozen=True, slots=True)
class _Tensor:
    """What a rank wrote down of a tensor; ``nbytes`` are those of one element."""

    shape: tuple[int, ...]
    dtype: str
    nbytes: int

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class _Given:
    """What a rank wrote down of a call, in the order of the list. Ranks are those within the group."""

    operation: str
    name: str
    inputs: tuple[_Tensor, ...]
    outputs: tuple[_Tensor, ...]
    reduce_op: str
    root: int | None
    peer: int | None
    tag: int
    sent: tuple[int, ...]
    received: tuple[int, ...]
    timeout_s: float | None


def _given(told: Sequence[Any]) -> _Given:
    """What a list of ``call_text`` says; ValueError or TypeError where it is none."""
    found = checked(_Given, dict(zip(_Given.__slots__, told, strict=True)))
    tensors = {
        name: tuple(_read_tensor(tuple(shape), dtype, nbytes) for shape, dtype, nbytes in found[name])
        for name in ("inputs", "outputs")
    }
    splits = {name: tuple(found[name]) for name in ("sent", "received")}
    return _Given(**{**found, **tensors, **splits})


@functools.lru_cache(maxsize=1024)
def _read_tensor(shape: tuple[int, ...], dtype: str, nbytes: int) -> _Tensor:
    checked(_Tensor, {"shape": shape, "dtype": dtype, "nbytes": nbytes})
    tensor = _Tensor(shape, dtype, nbytes)
    if not 0 <= tensor.elements * nbytes < LARGEST_NUMBER:
        raise ValueError(f"no tensor has {tensor.elements} elements")
    return tensor


def signature_of(told: Sequence[Any], group: Signature) -> Signature:
    """The signature of a call of which a rank wrote down ``told``; ``group`` has the group's fields alone.

    ValueError or TypeError where a rank cannot have written that.
    """
    a = _given(told)
    operation = a.operation
    shown = a.outputs if operation == "scatter" else a.inputs
    agreed, sent, received = _must_fit(a, len(group.members))
    fields = {name: getattr(group, name) for name in _GROUP_FIELDS}
    return Signature(
        a.name,
        kind=KINDS.get(operation, Kind.COLLECTIVE),
        reduce_op=a.reduce_op,
        root=_global(a.root, group.members) if operation in ROOTED else None,
        peer=_global(a.peer, group.members),
        tag=a.tag,
        tensors=tensors_text(shown),
        nbytes=sum(t.elements * t.nbytes for t in shown),
        agreed=agreed,
        sent=sent,
        received=received,
        timeout_s=a.timeout_s if a.timeout_s is not None else group.timeout_s,
        **fields,
    )


def _global(rank: int | None, members: Sequence[int]) -> int | None:
    """The global rank of a rank in a group; the same number where the group's members are unknown."""
    return members[rank] if rank is not None and 0 <= rank < len(members) else rank


def _must_fit(a: _Given, size: int) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """What all members must have alike, and the counts that each sends to and expects of each member."""
    operation = a.operation
    if operation == "all_gather":
        counts = _counts(a.outputs)
        received = counts if len(counts) == size else ()
        mine = sum(_counts(a.inputs))
        if set(counts) <= {mine}:  # nothing uneven, so all are to have the same
            return elements_text(a.inputs), (), ()
        return _dtypes(a.inputs), (mine,) * size, received
    if operation == "gather":
        sent = _only(a.root, sum(_counts(a.inputs)), size)
        return _dtypes(a.inputs), sent, _counts(a.outputs)
    if operation == "scatter":
        received = _only(a.root, sum(_counts(a.outputs)), size)
        return _dtypes(a.outputs), _counts(a.inputs), received
    if operation == "all_to_all":
        return _dtypes(a.inputs), _counts(a.inputs), _counts(a.outputs)
    if operation == "all_to_all_single" and a.inputs:
        filled = a.outputs[0] if a.outputs else a.inputs[0]  # a functional call makes its output itself
        return _dtypes(a.inputs), _rows(a.inputs[0], a.sent, size), _rows(filled, a.received, size)
    if operation == "reduce_scatter_tensor" and not a.outputs:  # a functional call lays out its rows anew
        return tensors_text(a.inputs), (), ()
    return elements_text(a.inputs), (), ()


def _counts(tensors: Iterable[_Tensor]) -> tuple[int, ...]:
    return tuple(t.elements for t in tensors)


def _only(member: int | None, count: int, size: int) -> tuple[int, ...]:
    return tuple(count if each == member else _NOT_TOLD for each in range(size))


def _rows(tensor: _Tensor, splits: Sequence[int], size: int) -> tuple[int, ...]:
    """The element counts of a tensor that is split by rows: evenly without ``splits``."""
    rows = tensor.shape[0] if tensor.shape else 1
    width = math.prod(tensor.shape[1:])
    if splits:
        return tuple(split * width for split in splits)
    return (rows // size * width,) * size if size else ()


def _dtypes(tensors: Iterable[_Tensor]) -> str:
    return ", ".join(sorted({t.dtype for t in tensors}))


def elements_text(tensors: Iterable[_Tensor]) -> str:
    """Element counts and dtypes: ``6 x float32``."""
    return ", ".join(f"{t.elements} x {t.dtype}" for t in tensors)


def tensors_text(tensors: Sequence[_Tensor]) -> str:
    """Shapes and dtypes for people: ``(2, 3) float32``; equal ones counted: ``4 times (2,) float32``."""
    texts = [f"{t.shape} {t.dtype}" for t in tensors]
    if len(texts) > 1 and len(set(texts)) == 1:
        return f"{len(texts)} times {texts[0]}"
    return ", ".join(texts[:4]) + (", ..." if len(texts) > 4 else "")
