"""``PendingCalls``: what a rank can see wrong in its own memory while calls are under way.

A tensor is written between the start of a call and the wait for it (seen by its version counter, which code
that writes by pointer does not change, and which says nothing of reading, nor of which part of a storage was
written); or two calls under way use the same memory, and one of them writes it.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.communication.arguments import Arguments
from harness.communication.reduce_operations import name_of

# Calls that are watched at a time; each keeps its tensors alive until it is waited for.
MOST = 64
_version_of = operator.attrgetter("_version")
# Operations that write to the tensors which they are given as inputs.
_WRITES_INPUTS = frozenset({"all_reduce", "all_reduce_coalesced", "reduce", "broadcast", "recv"})


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The bytes of a tensor that a call uses, from address ``start`` to ``end``."""

    start: int
    end: int
    writes: bool

    def collides(self, other: MemoryUse) -> bool:
        """Whether both are of the same bytes, and one of them writes there."""
        return self.start < other.end and other.start < self.end and (self.writes or other.writes)


class _Pending(NamedTuple):
    """A call under way; ``versions`` are those that its ``tensors`` had at the start."""

    operation: str
    place: str
    arguments: Callable[..., Arguments]
    given: tuple[Any, ...]
    work: Any
    tensors: Sequence[Any]
    versions: Sequence[int]

    @property
    def name(self) -> str:
        """The operation, and where it was called."""
        return f"{self.operation} ({self.place})" if self.place else self.operation

    def uses(self) -> tuple[MemoryUse, ...]:
        """The memory that the call uses."""
        arguments = self.arguments(*self.given)
        inputs = uses(arguments.inputs, writes=self.operation in _WRITES_INPUTS)
        return (*inputs, *uses(arguments.outputs, writes=True))

    def rewritten(self) -> bool:
        """Whether one of the tensors that were written since the start is an input, and no mere part.

        All views of one storage have one version, so it says nothing of a tensor that is only a part.
        """
        changed = [t for t, before in zip(self.tensors, self.versions, strict=True) if t._version != before]
        arguments = self.arguments(*self.given)
        if touches_versions(self.operation, arguments):
            return False
        inputs = {id(t) for t in arguments.inputs}
        return any(id(t) in inputs and _is_whole(t) for t in changed)


_make: Any = tuple.__new__  # of a named tuple, in less than half the time of its constructor


class PendingCalls:
    """The calls of one rank whose work handles it has not waited for."""

    def __init__(self) -> None:
        self.calls: dict[int, _Pending] = {}  # by id of the work handle
        self._uses: dict[int, tuple[MemoryUse, ...]] = {}  # of those that were compared with another one

    def clear(self) -> None:
        """Forgets all calls."""
        self.calls.clear()
        self._uses.clear()

    def began(
        self,
        operation: str,
        place: str,
        tensors: Sequence[Any],
        arguments: Callable[..., Arguments],
        given: tuple[Any, ...],
        work: Any,
    ) -> Sequence[str]:
        """Watches a call that is given ``tensors``, and in what order ``arguments(*given)`` says if need be.

        Returns a line for each call under way on whose memory it writes, or the reverse.
        """
        try:
            versions = list(map(_version_of, tensors))
        except RuntimeError:  # tensors of inference mode have none
            tensors = versions = []
        call = _make(_Pending, (operation, place, arguments, given, work, tensors, versions))
        pending = self.calls
        found = self._overlaps(call) if pending else ()
        if len(pending) < MOST:
            pending[id(work)] = call
        return found

    def meets(
        self, operation: str, place: str, arguments: Callable[..., Arguments], given: tuple[Any, ...]
    ) -> Sequence[str]:
        """Compares a call that is about to begin, and for which the rank waits at once, with those under way.

        Returns a line for each of these on whose memory it writes, or the reverse.
        """
        return self._overlaps(_Pending(operation, place, arguments, given, None, (), ()))

    def _overlaps(self, call: _Pending) -> Sequence[str]:
        mine = call.uses()
        return [_overlap_text(call, each) for each in self.calls.values() if self._overlap(mine, each)]

    def _overlap(self, mine: Sequence[MemoryUse], other: _Pending) -> bool:
        """Whether bytes are those of a call that is under way, and at least one of both writes there."""
        theirs = self._uses.get(id(other.work))
        if theirs is None:
            theirs = self._uses[id(other.work)] = other.uses()
        return any(a.collides(b) for a in mine for b in theirs) and not _is_completed(other.work)

    def waited(self, work: Any) -> Sequence[str]:
        """Ends the watch of a call; returns a line where one of its inputs was written meanwhile."""
        call = self.calls.pop(id(work), None)
        if self._uses:
            self._uses.pop(id(work), None)
        if call is None or list(map(_version_of, call.tensors)) == call.versions or not call.rewritten():
            return ()
        return [f"a tensor of {call.name} was written before the wait for it"]

    def forget(self, work: Any) -> None:
        """Ends the watch of a call of which the test has learnt otherwise that it is over."""
        self.calls.pop(id(work), None)
        self._uses.pop(id(work), None)


def touches_versions(operation: str, arguments: Arguments) -> bool:
    """Whether the backend itself writes to the inputs by operators: it divides, or copies a flat buffer."""
    return operation == "all_reduce_coalesced" or name_of(arguments.reduce_op) in ("AVG", "PREMUL_SUM")


def uses(tensors: Sequence[Any], *, writes: bool) -> Iterator[MemoryUse]:
    """The memory of tensors that have theirs without gaps, which a call reads or ``writes``."""
    for tensor in tensors:
        if tensor.layout != _strided() or not tensor.numel():
            continue
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        if last + 1 > tensor.numel():
            continue  # with gaps, in which another tensor may be
        start = tensor.data_ptr()
        yield MemoryUse(start, start + (last + 1) * tensor.element_size(), writes)


def _is_completed(work: Any) -> bool:
    """Asks the work handle, without recording that it was asked."""
    return bool(inspect.unwrap(type(work).is_completed)(work))


def _is_whole(tensor: Any) -> bool:
    """Whether a tensor is all of its storage."""
    return tensor.layout == _strided() and bool(tensor.nbytes == tensor.untyped_storage().nbytes())


def _strided() -> Any:
    import torch

    return torch.strided


def _overlap_text(call: _Pending, other: _Pending) -> str:
    return f"{call.name} uses memory of {other.name}, which is under way"
