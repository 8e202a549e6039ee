"""``PendingCalls``: what a rank can see wrong in its own memory while calls are under way.

A tensor is written between the start of a call and the wait for it (seen by its version counter, which code
that writes by pointer does not change, and which says nothing of reading, nor of which part of a storage was
written); or two calls under way use the same memory, and one of them writes it.
"""

from __future__ import annotations

import functools
import inspect
import operator
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from harness.communication.arguments import Arguments
from harness.communication.reduce_operations import name_of

# Calls that are watched at a time; each keeps its tensors alive until it is waited for.
MOST = 64
_version_of = operator.attrgetter("_version")
# Operations that write to the tensors which they are given as inputs.
_WRITES_INPUTS = frozenset({"all_reduce", "all_reduce_coalesced", "reduce", "broadcast", "recv"})


class MemoryUse(NamedTuple):
    """The bytes of a tensor that a call uses, from address ``start`` to ``end``."""

    start: int
    end: int
    writes: bool

    def collides(self, other: MemoryUse) -> bool:
        """Whether both are of the same bytes, and one of them writes there."""
        return self.start < other.end and other.start < self.end and (self.writes or other.writes)


class _Pending(NamedTuple):
    """A call under way; ``versions`` are those that its ``tensors`` had at the start, [] for none."""

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
        self._alone: _Pending | None = None  # which is in no other's way: its memory is not looked at yet
        self._memory = _Memory()  # of all others
        self._uses: dict[int, Sequence[MemoryUse]] = {}  # of those that have met another one's memory

    def clear(self) -> None:
        """Forgets all calls."""
        self.calls.clear()
        self._uses.clear()
        self._alone = None
        self._memory = _Memory()

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
            versions = []
        call = _make(_Pending, (operation, place, arguments, given, work, tensors, versions))
        pending = self.calls
        found: Sequence[str] = ()
        if not pending:
            self._alone = call
        else:
            mine = extents(tensors)
            found = self._overlaps(call, mine)
            if len(pending) < MOST:
                self._memory.add(id(work), mine)
        if len(pending) < MOST:
            pending[id(work)] = call
        return found

    def meets(
        self, operation: str, place: str, arguments: Callable[..., Arguments], given: tuple[Any, ...]
    ) -> Sequence[str]:
        """Compares a call that is about to begin, and for which the rank waits at once, with those under way.

        Returns a line for each of these on whose memory it writes, or the reverse.
        """
        told = arguments(*given)
        call = _Pending(operation, place, arguments, given, None, (), ())
        return self._overlaps(call, extents((*told.inputs, *told.outputs)))

    def _overlaps(self, call: _Pending, mine: Sequence[Extent]) -> Sequence[str]:
        """A line for each call under way of whose memory one writes bytes that the other uses.

        What a call does with its memory is asked only where another one is in the same place.
        """
        if self._alone is not None:
            self._memory.add(id(self._alone.work), extents(self._alone.tensors))
            self._alone = None
        near = self._memory.collisions(mine)
        if not near:
            return ()
        used = call.uses()
        others = [each for each in self.calls.values() if id(each.work) in near and self._meet(used, each)]
        return [_overlap_text(call, each) for each in others if not _is_completed(each.work)]

    def _meet(self, used: Sequence[MemoryUse], other: _Pending) -> bool:
        theirs = self._uses.get(id(other.work))
        if theirs is None:
            theirs = self._uses[id(other.work)] = other.uses()
        return any(one.collides(another) for one in used for another in theirs)

    def waited(self, work: Any) -> Sequence[str]:
        """Ends the watch of a call; returns a line where one of its inputs was written meanwhile."""
        call = self._ended(work)
        if call is None or not call.versions or list(map(_version_of, call.tensors)) == call.versions:
            return ()
        if not call.rewritten():
            return ()
        return [f"a tensor of {call.name} was written before the wait for it"]

    def forget(self, work: Any) -> None:
        """Ends the watch of a call of which the test has learnt otherwise that it is over."""
        self._ended(work)

    def _ended(self, work: Any) -> _Pending | None:
        call = self.calls.pop(id(work), None)
        if call is not None:
            if call is self._alone:
                self._alone = None
            else:
                self._memory.remove(id(work))
                self._uses.pop(id(work), None)
        return call


# From which address to which bytes are, between which may be gaps.
Extent = tuple[int, int]


class _Memory:
    """Where the memory of calls is, by addresses: a call is compared with its neighbours alone."""

    def __init__(self) -> None:
        self._of: dict[int, Sequence[Extent]] = {}  # by id of the work handle
        self._sorted: list[tuple[int, int, int]] = []
        self._longest = 0  # in bytes: nothing that begins further below an address reaches it

    def add(self, work: int, used: Sequence[Extent]) -> None:
        """Adds where the memory of a work handle's call is, in place of where that was before."""
        self.remove(work)
        self._of[work] = used
        for start, end in used:
            insort(self._sorted, (start, end, work))
            if end - start > self._longest:
                self._longest = end - start

    def remove(self, work: int) -> None:
        """Removes the memory of a call, if it is here."""
        for start, end in self._of.pop(work, ()):
            del self._sorted[bisect_left(self._sorted, (start, end, work))]
        if not self._sorted:
            self._longest = 0

    def collisions(self, used: Iterable[Extent]) -> set[int]:
        """The ids of work handles whose calls have memory between the same addresses."""
        among, longest = self._sorted, self._longest
        found: set[int] = set()
        for start, end in used:
            at = bisect_left(among, (start - longest,))
            for _, theirs, work in among[at : bisect_left(among, (end,))]:
                if theirs > start:
                    found.add(work)
        return found


def touches_versions(operation: str, arguments: Arguments) -> bool:
    """Whether the backend itself may write to the inputs by operators.

    It divides, copies a flat buffer, or, as gloo does for an accelerator, copies what it has reduced in the
    memory of the CPU.
    """
    if operation in _WRITES_INPUTS and any(tensor.device.type != "cpu" for tensor in arguments.inputs):
        return True
    return operation == "all_reduce_coalesced" or name_of(arguments.reduce_op) in ("AVG", "PREMUL_SUM")


def extents(tensors: Sequence[Any]) -> list[Extent]:
    """Where the memory of tensors is."""
    found, strided = [], _strided()
    for tensor in tensors:
        if tensor.layout == strided and (length := tensor.nbytes):
            start = tensor.data_ptr()
            if not tensor.is_contiguous():
                length = _reached(tensor) * tensor.element_size()
            found.append((start, start + length))
    return found


def _reached(tensor: Any) -> int:
    """How many elements lie between the first and the last one of a tensor, both included."""
    by_dimension = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum(int((size - 1) * stride) for size, stride in by_dimension)


def uses(tensors: Sequence[Any], *, writes: bool) -> Iterator[MemoryUse]:
    """The memory of tensors that have theirs without gaps, which a call reads or ``writes``."""
    for tensor in tensors:
        if tensor.layout != _strided() or not tensor.numel():
            continue
        start, elements = tensor.data_ptr(), tensor.numel()
        if not tensor.is_contiguous():
            reached = _reached(tensor)
            if reached > elements:
                continue  # with gaps, in which another tensor may be
            elements = reached
        yield MemoryUse(start, start + elements * tensor.element_size(), writes)


def _is_completed(work: Any) -> bool:
    """Asks the work handle, without recording that it was asked."""
    return bool(inspect.unwrap(type(work).is_completed)(work))


def _is_whole(tensor: Any) -> bool:
    """Whether a tensor is all of its storage."""
    return tensor.layout == _strided() and bool(tensor.nbytes == tensor.untyped_storage().nbytes())


@functools.cache
def _strided() -> Any:
    import torch

    return torch.strided


def _overlap_text(call: _Pending, other: _Pending) -> str:
    return f"{call.name} uses memory of {other.name}, which is under way"
