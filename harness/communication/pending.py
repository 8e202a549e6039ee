"""``PendingCalls``: what a rank can see wrong in its own memory while calls are under way.

A tensor is written between the start of a call and the wait for it (seen by its version counter, which code
that writes by pointer does not change, and which says nothing of reading); or two calls under way use the
same memory, and one of them writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.communication.arguments import Arguments, reduce_name

# Calls that are watched at a time; each keeps its tensors alive until it is waited for.
MOST = 64
# Operations that write to the tensors which they are given as inputs.
_WRITES_INPUTS = frozenset({"all_reduce", "all_reduce_coalesced", "reduce", "broadcast", "recv"})


@dataclass(frozen=True, slots=True)
class _Use:
    """A tensor that a call uses: its version at the start (None: of no use), its bytes, if it is written."""

    tensor: Any
    version: int | None
    start: int
    end: int
    writes: bool

    @property
    def rewritten(self) -> bool:
        """Whether the tensor was written since, as far as its version can tell."""
        return self.version is not None and bool(self.tensor._version != self.version)


@dataclass(frozen=True, slots=True)
class _Pending:
    name: str
    work: Any
    inputs: tuple[_Use, ...]
    outputs: tuple[_Use, ...]


class PendingCalls:
    """The calls of one rank whose work handles it has not waited for."""

    def __init__(self) -> None:
        self._pending: dict[int, _Pending] = {}  # by id of the work handle

    def __bool__(self) -> bool:
        return bool(self._pending)

    def clear(self) -> None:
        """Forgets all calls."""
        self._pending.clear()

    def began(self, name: str, operation: str, arguments: Arguments, work: Any) -> Iterator[str]:
        """Watches a call; yields a line for each call under way on whose memory it writes, or the reverse."""
        writes = operation in _WRITES_INPUTS
        inputs = tuple(
            _uses(arguments.inputs, writes=writes, versioned=not _touches_versions(operation, arguments))
        )
        call = _Pending(name, work, inputs, tuple(_uses(arguments.outputs, writes=True)))
        for other in self._pending.values():
            if _overlap(call, other) and not other.work.is_completed():
                yield f"{name} uses memory of {other.name}, which is under way"
        if len(self._pending) < MOST:
            self._pending[id(work)] = call

    def waited(self, work: Any) -> Iterator[str]:
        """Ends the watch of a call; yields a line where one of its inputs was written meanwhile."""
        call = self._pending.pop(id(work), None)
        if call is not None and any(use.rewritten for use in call.inputs):
            yield f"a tensor of {call.name} was written before the wait for it"

    def forget(self, work: Any) -> None:
        """Ends the watch of a call of which the test has learnt otherwise that it is over."""
        self._pending.pop(id(work), None)


def _touches_versions(operation: str, arguments: Arguments) -> bool:
    """Whether the backend itself writes to the inputs by operators: it divides, or copies a flat buffer."""
    return operation == "all_reduce_coalesced" or reduce_name(arguments.reduce_op) in ("AVG", "PREMUL_SUM")


def _uses(tensors: Sequence[Any], *, writes: bool, versioned: bool = False) -> Iterator[_Use]:
    for tensor in tensors:
        if tensor.is_inference() or tensor.layout != _strided() or not tensor.numel():
            continue
        start = tensor.data_ptr()
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        if last + 1 > tensor.numel():
            continue  # with gaps, in which another tensor may be
        end = start + (last + 1) * tensor.element_size()
        yield _Use(tensor, tensor._version if versioned else None, start, end, writes)


def _strided() -> Any:
    import torch

    return torch.strided


def _overlap(one: _Pending, other: _Pending) -> bool:
    """Whether the calls use the same bytes, and at least one of them writes there."""
    return any(
        a.start < b.end and b.start < a.end and (a.writes or b.writes)
        for a in (*one.inputs, *one.outputs)
        for b in (*other.inputs, *other.outputs)
    )
