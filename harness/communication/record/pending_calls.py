"""``PendingCalls``: what a rank can see wrong in its own memory while calls are under way.

A tensor is written between the start of a call and the wait for it (seen by its version counter, which code
that writes by pointer does not change, and which says nothing of reading, nor of which part of a storage was
written); or two calls under way use the same memory, and one of them writes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from harness.communication.record.arguments import Arguments
from harness.communication.record.memory_use import Extent, Used, UsedMemory, extents, strided
from harness.communication.record.reduce_operations import name_of

# Calls that are watched at a time; each keeps its tensors alive until it is waited for.
MOST = 64
# Operations that write to the tensors which they are given as inputs.
_WRITES_INPUTS = frozenset({"all_reduce", "all_reduce_coalesced", "reduce", "broadcast", "recv"})


# A call under way, a plain tuple since one is made at each call: its operation and place; the tensors that it
# uses; what says, and of what, which of these are inputs; its work handle; and the versions that the tensors
# had at the start, [] for none.
_Pending = tuple[str, str, Used, Callable[..., Arguments], tuple[Any, ...], Any, Sequence[int]]


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
            versions = _versions(used[0])
        except RuntimeError:  # tensors of inference mode have none
            versions = []
        call = (operation, place, used, arguments, given, work, versions)
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
            _, _, used, _, _, work, _ = self._alone
            self._memory.add(id(work), *_extents(used))
            self._alone = None
        near = self._memory.collisions(written, read)
        if not near:
            return ()
        return [
            f"{name} uses memory of {_name(operation, place)}, which is under way"
            for key, (operation, place, _, _, _, work, _) in [*self.calls.items()]
            if key in near and not _is_completed(work)
        ]

    def waited(self, work: Any) -> Sequence[str]:
        """Ends the watch of a call; returns a line where one of its inputs was written meanwhile."""
        call = self.calls.pop(id(work), None)
        if call is None:
            return ()
        if call is self._alone:
            self._alone = None
        else:
            self._memory.remove(id(work))
        operation, place, (tensors, _), _, _, _, versions = call
        if not versions or _versions(tensors) == versions or not _is_rewritten(call):
            return ()
        return [f"a tensor of {_name(operation, place)} was written before the wait for it"]

    def forget(self, work: Any) -> None:
        """Ends the watch of a call of which the test has learnt otherwise that it is over."""
        self.waited(work)  # what it says is dropped


def _versions(tensors: Sequence[Any]) -> Sequence[int]:
    if len(tensors) == 1:  # the usual case, in a part of the time
        return [tensors[0]._version]
    return [tensor._version for tensor in tensors]


def _is_rewritten(call: _Pending) -> bool:
    """Whether one of the tensors that were written since the start is an input, and no mere part.

    All views of one storage have one version, so it says nothing of a tensor that is only a part.
    """
    operation, _, (tensors, _), arguments_of, given, _, versions = call
    arguments = arguments_of(*given)
    if touches_versions(operation, arguments):
        return False
    changed = [t for t, before in zip(tensors, versions, strict=True) if t._version != before]
    inputs = {id(t) for t in arguments.inputs}
    return any(id(t) in inputs and _is_whole(t) for t in changed)


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
