"""``signature_of``: what ranks compare of a call, made of the arguments that it was given."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from harness.communication.arguments import KINDS, REDUCING, ROOTED, Arguments
from harness.communication.reduce_operations import name_of
from harness.communication_call import Kind, Signature

_NOT_TOLD = -1  # in a table of counts: nothing goes between these two
_GROUP_FIELDS = ("group", "members", "made_at", "default", "generation", "backend")


def signature_of(operation: str, arguments: Arguments, group: Signature) -> Signature:
    """The signature of a call; ``group`` is a signature that has the group's fields alone."""
    a = arguments
    shown = a.outputs if operation == "scatter" else a.inputs
    agreed, sent, received = _must_fit(operation, a, len(group.members))
    fields = {name: getattr(group, name) for name in _GROUP_FIELDS}
    return Signature(
        operation,
        kind=KINDS.get(operation, Kind.COLLECTIVE),
        reduce_op=name_of(a.reduce_op) if operation in REDUCING else "",
        root=_global(a.root, group.members) if operation in ROOTED else None,
        peer=_global(a.peer, group.members),
        tag=a.tag,
        tensors=tensors_text(shown),
        nbytes=sum(t.numel() * t.element_size() for t in shown),
        agreed=agreed,
        sent=sent,
        received=received,
        timeout_s=a.timeout_s if a.timeout_s is not None else group.timeout_s,
        **fields,
    )


def _global(rank: int | None, members: Sequence[int]) -> int | None:
    """The global rank of a rank in a group; the same number where the group's members are unknown."""
    return members[rank] if rank is not None and 0 <= rank < len(members) else rank


def _must_fit(operation: str, a: Arguments, size: int) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """What all members must have alike, and the counts that each sends to and expects of each member."""
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
    if operation == "all_to_all_single":
        filled = a.outputs[0] if a.outputs else a.inputs[0]  # a functional call makes its output itself
        return _dtypes(a.inputs), _rows(a.inputs[0], a.sent, size), _rows(filled, a.received, size)
    if operation == "reduce_scatter_tensor" and not a.outputs:  # a functional call lays out its rows anew
        return tensors_text(a.inputs), (), ()
    return elements_text(a.inputs), (), ()


def _counts(tensors: Iterable[Any]) -> tuple[int, ...]:
    return tuple(int(t.numel()) for t in tensors)


def _only(member: int | None, count: int, size: int) -> tuple[int, ...]:
    return tuple(count if each == member else _NOT_TOLD for each in range(size))


def _rows(tensor: Any, splits: Sequence[int], size: int) -> tuple[int, ...]:
    """The element counts of a tensor that is split by rows: evenly without ``splits``."""
    rows = int(tensor.shape[0]) if tensor.dim() else 1
    width = math.prod(int(size) for size in tensor.shape[1:])
    if splits:
        return tuple(int(split) * width for split in splits)
    return (rows // size * width,) * size if size else ()


def _dtypes(tensors: Iterable[Any]) -> str:
    return ", ".join(sorted({_dtype(t) for t in tensors}))


def elements_text(tensors: Iterable[Any]) -> str:
    """Element counts and dtypes: ``6 x float32``."""
    return ", ".join(f"{t.numel()} x {_dtype(t)}" for t in tensors)


def tensors_text(tensors: Sequence[Any]) -> str:
    """Shapes and dtypes for people: ``(2, 3) float32``; equal ones counted: ``4 times (2,) float32``."""
    texts = [f"{tuple(t.shape)} {_dtype(t)}" for t in tensors]
    if len(texts) > 1 and len(set(texts)) == 1:
        return f"{len(texts)} times {texts[0]}"
    return ", ".join(texts[:4]) + (", ..." if len(texts) > 4 else "")


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
