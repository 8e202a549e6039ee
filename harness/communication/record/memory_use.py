"""Which memory calls use: the tensors that a call reads and writes, and where those of many calls collide."""

from __future__ import annotations

import functools
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.communication.record.arguments import IN_PLACE, KINDS, WITHOUT_TENSORS, of_method, tensors_in

# The tensors of a call, and how many of them, from the first one on, it writes to.
Used = tuple[Sequence[Any], int]
# From which address to which bytes are.
Extent = tuple[int, int]


def used_by(operation: str) -> Callable[[tuple[Any, ...], Mapping[str, Any]], Used]:
    """What tells of the arguments of a method of ``ProcessGroup`` which tensors a call of it uses."""
    if operation in IN_PLACE or operation in KINDS or operation in WITHOUT_TENSORS:
        return _used_send if operation == "send" else _used_in_place
    return functools.partial(_used_pair, operation)


def _used_in_place(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Used:
    if args and type(args[0]) is list:
        tensors = tuple(args[0])
        return tensors, len(tensors)
    found = tensors_in((*args, *kwargs.values()))
    return found, len(found)


def _used_send(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Used:
    return _used_in_place(args, kwargs)[0], 0


def _used_pair(operation: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Used:
    """The tensors of a call that is given outputs and then inputs."""
    if len(args) > 1:
        written = _listed(args[0])
        return (*written, *_listed(args[1])), len(written)
    told = of_method(operation, "", args, kwargs)
    return (*told.outputs, *told.inputs), len(told.outputs)


def _listed(given: Any) -> Sequence[Any]:
    """The tensors of an argument: itself, those of a list, or of a list of lists."""
    if type(given) is not list:
        return (given,)
    if len(given) == 1 and type(given[0]) is list:
        (given,) = given
    return tensors_in(given) if given and type(given[0]) is list else given


def extents(tensors: Sequence[Any]) -> list[Extent]:
    """Where the bytes of tensors are, without those that have none, or gaps: another one may be in these."""
    found, kind = [], strided()
    for tensor in tensors:
        if tensor.layout is kind and (length := tensor.nbytes):
            if not tensor.is_contiguous():
                reached = _reached(tensor) * tensor.element_size()
                if reached > length:
                    continue
                length = reached
            start = tensor.data_ptr()
            found.append((start, start + length))
    return found


def _reached(tensor: Any) -> int:
    """How many elements lie between the first and the last one of a tensor, both included."""
    by_dimension = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum(int((size - 1) * stride) for size, stride in by_dimension)


@functools.cache
def strided() -> Any:
    """The layout of tensors whose memory is looked at."""
    import torch

    return torch.strided


class UsedMemory:
    """Where the memory of calls is, by their ids: a call is compared with its neighbours in memory alone."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[Sequence[Extent], Sequence[Extent]]] = {}
        self._written, self._read = _Extents(), _Extents()

    def add(self, call: int, written: Sequence[Extent], read: Sequence[Extent]) -> None:
        """Adds where a call's memory is, in place of where that was before."""
        self.remove(call)
        self._of[call] = written, read
        self._written.add(call, written)
        self._read.add(call, read)

    def remove(self, call: int) -> None:
        """Removes the memory of a call, if it is here."""
        found = self._of.pop(call, None)
        if found is not None:
            self._written.remove(call, found[0])
            self._read.remove(call, found[1])

    def collisions(self, written: Sequence[Extent], read: Sequence[Extent]) -> set[int]:
        """The calls that use bytes which are ``written``, or write bytes which are ``read``."""
        found: set[int] = set()
        self._written.collect(written, found)
        self._written.collect(read, found)
        self._read.collect(written, found)
        return found


class _Extents:
    """Extents of calls, by address."""

    def __init__(self) -> None:
        self._sorted: list[tuple[int, int, int]] = []
        self._longest = 0  # in bytes: nothing that begins further below an address reaches it

    def add(self, call: int, used: Sequence[Extent]) -> None:
        for start, end in used:
            insort(self._sorted, (start, end, call))
            if end - start > self._longest:
                self._longest = end - start

    def remove(self, call: int, used: Sequence[Extent]) -> None:
        for start, end in used:
            del self._sorted[bisect_left(self._sorted, (start, end, call))]
        if not self._sorted:
            self._longest = 0

    def collect(self, used: Sequence[Extent], found: set[int]) -> None:
        """Adds the calls that have memory between the same addresses."""
        among, longest = self._sorted, self._longest
        if not among:
            return
        for start, end in used:
            at = bisect_left(among, (start - longest,))
            while at < len(among) and among[at][0] < end:
                _, theirs, call = among[at]
                if theirs > start:
                    found.add(call)
                at += 1
