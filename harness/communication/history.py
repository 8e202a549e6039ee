"""``recorded_communication`` and ``record_communication``: what the calling rank has communicated.

Which log is the rank's is told by those who start ranks (``history_of``): a process has one, a rank that is a
thread its own.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from harness.communication.call_log import ENTRIES, CallLog
from harness.communication_call import Call, Kind
from harness.errors import UsageError

_TOLD = frozenset({Kind.COLLECTIVE, Kind.SEND, Kind.RECEIVE})


@dataclass(frozen=True, slots=True)
class Communication:
    """The collectives and messages of one rank, in the order in which they began.

    One call of the user's is one call here, also where it is several of the backend's
    (``all_gather_object``). What else a rank does (groups, stores, placements) is left out.
    """

    calls: tuple[Call, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """A line for each call: ``all_reduce SUM (3,) float32 12 bytes on {0, 1}``; see ``parts``."""
        return tuple(" ".join(parts(call)) for call in self.calls)

    @property
    def counts(self) -> Mapping[str, int]:
        """How often each operation was called."""
        return Counter(call.signature.operation for call in self.calls)

    @property
    def nbytes(self) -> int:
        """The bytes of all tensors that the rank gave to its calls, or gets from them (recv, scatter)."""
        return sum(call.signature.nbytes for call in self.calls)

    def on(self, *members: int) -> Communication:
        """The calls on groups of these ranks alone."""
        return Communication(tuple(c for c in self.calls if set(c.signature.members) == set(members)))


def parts(call: Call) -> tuple[str, ...]:
    """What a call's line is made of, in this order; what a call does not have is left out.

    Operation, reduce operation, shape, dtype (of several tensors both together), bytes, ``root 0``, ``to rank
    1`` or ``from rank 1``, ``tag 3``, members of the group. All ranks are global ones.
    """
    s = call.signature
    peer = ""
    if s.kind in (Kind.SEND, Kind.RECEIVE):
        way = "to" if s.kind is Kind.SEND else "from"
        peer = f"{way} {'any rank' if s.peer is None else f'rank {s.peer}'}"
    shape, bracket, dtype = s.tensors.partition(") ")
    one = bracket and " " not in dtype and shape.startswith("(")
    found = (
        s.operation,
        s.reduce_op,
        *((f"{shape})", dtype) if one else (s.tensors,)),
        f"{s.nbytes} bytes" if s.tensors else "",
        "" if s.root is None else f"root {s.root}",
        peer,
        f"tag {s.tag}" if s.tag else "",
        f"on {{{', '.join(map(str, s.members))}}}",
    )
    return tuple(part for part in found if part)


def recorded_communication() -> Communication:
    """What the calling rank has communicated since its test began, including what is still under way.

    UsageError where nothing is recorded (outside of a rank's test, and where one process plays all ranks on
    local tensors), and where the rank has made more calls than its log holds.
    """
    return _since(_own(), 0)


@contextmanager
def record_communication() -> Iterator[Communication]:
    """A region whose communication is a value, complete at its end: ``with record_communication() as seen``.

    UsageError as of ``recorded_communication``; only the calls in the region have to fit in the log.
    """
    own = _own()
    first = own.count
    seen = Communication()
    try:
        yield seen
    finally:
        object.__setattr__(seen, "calls", _since(own, first).calls)


def _since(log: CallLog, first: int) -> Communication:
    made = log.count - first
    if made > ENTRIES:
        raise UsageError(
            f"the rank made {made} calls, of which its log holds the last {ENTRIES}: look at fewer at a "
            "time, by `with record_communication()`"
        )
    return Communication(_users(log.last(made)))


def _users(calls: Iterable[Call]) -> tuple[Call, ...]:
    """The collectives and messages, those of the backend that are one of the user's put together."""
    found: list[Call] = []
    for call in calls:
        if call.kind not in _TOLD or call.refused:
            continue
        last = found[-1] if found else None
        if last is not None and _same(last, call):
            s = last.signature
            tensors = ", ".join(filter(None, (s.tensors, call.signature.tensors)))
            whole = replace(s, tensors=tensors, nbytes=s.nbytes + call.signature.nbytes)
            found[-1] = replace(last, signature=whole, ended_s=call.ended_s)
        else:
            found.append(call)
    return tuple(found)


def _same(one: Call, other: Call) -> bool:
    """Whether two calls of the backend are one of the user's: they have one number in their group."""
    if one.kind is not Kind.COLLECTIVE or other.kind is not Kind.COLLECTIVE:
        return False
    a, b = one.signature, other.signature
    return (a.group_key, a.operation, one.number) == (b.group_key, b.operation, other.number)


# -- whose log

_OUTSIDE = "this is no rank of a test, or a thread of one that the harness did not start"
NOT_IN_USE = "torch.distributed is not imported"


class _OfThread(threading.local):
    """The log of the rank that is the calling thread, or why it has none."""

    log: CallLog | str | None = None


@dataclass(slots=True)
class _Known:
    """The log of the rank that is this process, and of those that are its threads."""

    of_process: CallLog | str | None = None
    of_thread: _OfThread = field(default_factory=_OfThread)


_known = _Known()


@contextmanager
def history_of(log: CallLog | str) -> Iterator[None]:
    """The region of a test on a rank that is a process: its calls are in ``log``, or why they are nowhere."""
    before, _known.of_process = _known.of_process, log
    try:
        yield
    finally:
        _known.of_process = before


@contextmanager
def history_of_thread(log: CallLog) -> Iterator[None]:
    """The region of a test on a rank that is the calling thread."""
    _known.of_thread.log = log
    try:
        yield
    finally:
        _known.of_thread.log = None


def _own() -> CallLog:
    found = _known.of_thread.log or _known.of_process or _OUTSIDE
    if isinstance(found, str):
        raise UsageError(f"no communication is recorded here: {found}")
    return found
