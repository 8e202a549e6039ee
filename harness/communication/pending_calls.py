"""``PendingCalls``: what a rank can see wrong in its own memory while calls are under way.

A tensor is written between the start of a call and the wait for it (seen by its version counter, which code
that writes by pointer does not change, and which says nothing of reading, nor of which part of a storage was
written); or two calls under way use the same memory, and one of them writes it.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from harness.communication.arguments import Arguments
from harness.communication.memory_use import Extent, Used, UsedMemory, extents, strided
from harness.communication.reduce_operations import name_of

# Calls that are watched at a time; each keeps its tensors alive until it is waited for.
MOST = 64
_version_of = operator.attrgetter("_version")
# Operations that write to the tensors which they are given as inputs.
_WRITES_INPUTS = frozenset({"all_reduce", "all_reduce_coalesced", "reduce", "broadcast", "recv"})


class _Pending(NamedTuple):
    """A call under way; ``versions`` are those that the tensors had at the start, [] for none."""

    operation: str
    place: str
    used: Used
    arguments: Callable[..., Arguments]
    given: tuple[Any, ...]
    work: Any
    versions: Sequence[int]

    @property
    def name(self) -> str:
        """The operation, and where it was called."""
        return _name(self.operation, self.place)

    def rewritten(self) -> bool:
        """Whether one of the tensors that were written since the start is an input, and no mere part.

        All views of one storage have one version, so it says nothing of a tensor that is only a part.
        """
        tensors = self.used[0]
        changed = [t for t, before in zip(tensors, self.versions, strict=True) if t._version != before]
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
        self._memory = UsedMemory()  # of all others

    def clear(self) -> None:
        """Forgets all calls."""
        self.calls.clear()
        self._alone = None
        self._memory = UsedMemory()

    def began(
        self,
        operation: str,
        place: str,
        used: Used,
        arguments: Callable[..., Arguments],
        given: tuple[Any, ...],
        work: Any,
    ) -> Sequence[str]:
        """Watches a call that has begun; ``arguments(*given)`` says what each of its tensors is to it.

        Returns a line for each call under way on whose memory it writes, or the reverse.
        """
        try:
            versions = list(map(_version_of, used[0]))
        except RuntimeError:  # tensors of inference mode have none
            versions = []
        call = _make(_Pending, (operation, place, used, arguments, given, work, versions))
        pending = self.calls
        if not pending:
            self._alone = pending[id(work)] = call
            return ()
        written, read = _extents(used)
        found = self._overlaps(_name(operation, place), written, read)
        if len(pending) < MOST:
            self._memory.add(id(work), written, read)
            pending[id(work)] = call
        return found

    def meets(self, operation: str, place: str, used: Used) -> Sequence[str]:
        """Compares a call that is about to begin, and for which the rank waits at once, with those under way.

        Returns a line for each of these on whose memory it writes, or the reverse.
        """
        return self._overlaps(_name(operation, place), *_extents(used))

    def _overlaps(self, name: str, written: Sequence[Extent], read: Sequence[Extent]) -> Sequence[str]:
        """A line for each call under way of whose memory one writes bytes that the other uses."""
        if self._alone is not None:
            self._memory.add(id(self._alone.work), *_extents(self._alone.used))
            self._alone = None
        near = self._memory.collisions(written, read)
        if not near:
            return ()
        others = [call for key, call in self.calls.items() if key in near]
        return [
            f"{name} uses memory of {other.name}, which is under way"
            for other in others
            if not _is_completed(other.work)
        ]

    def waited(self, work: Any) -> Sequence[str]:
        """Ends the watch of a call; returns a line where one of its inputs was written meanwhile."""
        call = self._ended(work)
        if call is None:
            return ()
        _, _, (tensors, _), _, _, _, versions = call
        if not versions or list(map(_version_of, tensors)) == versions or not call.rewritten():
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
        return call


def _name(operation: str, place: str) -> str:
    return f"{operation} ({place})" if place else operation


def _extents(used: Used) -> tuple[Sequence[Extent], Sequence[Extent]]:
    """The memory that a call writes, and the one that it only reads."""
    tensors, written = used
    return extents(tensors[:written]), extents(tensors[written:])


def touches_versions(operation: str, arguments: Arguments) -> bool:
    """Whether the backend itself may write to the inputs by operators.

    It divides, copies a flat buffer, or, as gloo does for an accelerator, copies what it has reduced in the
    memory of the CPU.
    """
    if operation in _WRITES_INPUTS and any(tensor.device.type != "cpu" for tensor in arguments.inputs):
        return True
    return operation == "all_reduce_coalesced" or name_of(arguments.reduce_op) in ("AVG", "PREMUL_SUM")


def _is_completed(work: Any) -> bool:
    """Asks the work handle, without recording that it was asked."""
    return bool(inspect.unwrap(type(work).is_completed)(work))


def _is_whole(tensor: Any) -> bool:
    """Whether a tensor is all of its storage."""
    return tensor.layout is strided() and bool(tensor.nbytes == tensor.untyped_storage().nbytes())
