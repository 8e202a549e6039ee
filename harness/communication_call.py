"""``Call``: one communication call of a rank (a collective, a message, a wait on a store), as a value.

A call is what the rank's program asked of ``torch.distributed``, whoever asked: the test, DDP's reducer, a
compiled graph. What the calls of all ranks mean together is decided in ``harness/communication``.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from harness.field_checks import checked

# The name of a group that was never registered under one: a rank may have several such groups.
UNNAMED = "?"
# Ranks that follow each other are written out up to so many.
_WRITTEN_OUT = 8


def members_text(members: Iterable[int]) -> str:
    """Ranks in their order, which distinguishes meshes: ``0, 2, 1, 3``; many that follow are ``0-63``."""
    parts: list[str] = []
    for _, numbered in itertools.groupby(enumerate(members), lambda pair: pair[1] - pair[0]):
        run = [rank for _, rank in numbered]
        parts += [f"{run[0]}-{run[-1]}"] if len(run) > _WRITTEN_OUT else map(str, run)
    return ", ".join(parts)


class Kind(str, enum.Enum):
    """What a call waits for."""

    COLLECTIVE = "collective"  # members of its group
    SEND = "send"
    RECEIVE = "receive"
    MAKING = "making"  # all members of the group that is being made
    ENDING = "ending"  # nobody: it ends a group
    STORE = "store"  # somebody who sets the key
    SETTING = "setting"  # nobody: it sets a store's key
    IN_CPP = "in C++"  # what it has started in C++ itself: a backward pass, a part of DDP
    ANSWER = "answer"  # a worker of torch.distributed.rpc
    WORKERS = "workers"  # all workers of torch.distributed.rpc, which join or leave
    FINDING = "finding"  # nobody: something wrong that the rank saw in its own memory
    LAYOUT = "layout"  # nobody: DTensor's placements, or DDP's parameters, on which all ranks must agree


@dataclass(frozen=True, slots=True)
class Signature:
    """What a call is, without when and where it was made.

    ``members`` are the global ranks of the group in group order, () where unknown; ``made_at`` is the line
    that made it, "" for the default group. ``description`` is what torch or the user calls the group, as
    "mesh_tp". ``generation`` counts groups of its name before. ``root`` and ``peer`` are global ranks (peer
    None on a receive: from any source). ``tensors`` is for people ("(2, 3) float32"), ``nbytes`` is their
    size. ``agreed`` is what all members must have alike, besides operation, root and reduce operation.
    ``sent`` and ``received`` are element counts by member, where what one sends another expects.
    ``timeout_s`` is after how long the call gives up by itself. Of a store, ``group`` is what it puts before
    ``key``; ``workers``, if any, are the calls with this key for which it waits. Of a remote call, ``key`` is
    the worker that is asked; where all of so many ``workers`` have to come, the one that comes.
    """

    operation: str
    group: str = ""
    kind: Kind = Kind.COLLECTIVE
    members: tuple[int, ...] = ()
    made_at: str = ""
    default: bool = False
    generation: int = 0
    backend: str = ""
    description: str = ""
    reduce_op: str = ""
    root: int | None = None
    peer: int | None = None
    tag: int = 0
    tensors: str = ""
    nbytes: int = 0
    agreed: str = ""
    sent: tuple[int, ...] = ()
    received: tuple[int, ...] = ()
    key: str = ""
    timeout_s: float | None = None
    workers: int = 0

    @property
    def object_list(self) -> str:
        """The function of objects of which a message is a part, as ``recv_object_list``; "" for none."""
        return self.operation if self.operation.endswith("_object_list") else ""

    @property
    def group_key(self) -> tuple[str, int, tuple[int, ...]]:
        """The identity of the group over all ranks."""
        return (self.group, self.generation, self.members)

    @property
    def group_text(self) -> str:
        """The group as its user would name it."""
        if self.default:
            return "the default group"
        if self.kind is Kind.LAYOUT:
            what = "group" if self.group == "the group" else "mesh"
            return f"the {what} of ranks {members_text(self.members)}"
        if not self.members:
            return f"group {self.group or UNNAMED}"
        made = f" made at {self.made_at}" if self.made_at else ""
        return f"group {{{members_text(self.members)}}}{made}"


@dataclass(frozen=True, slots=True)
class Call:
    """A call, its number and its times.

    ``sequence`` counts what the group's backend was asked for, from 1: calls with the same sequence belong
    together. ``number`` counts the user's calls, of which one (``all_gather_object``) may be several of the
    backend's; where workers of RPC meet, it is how often the rank has joined. ``place`` is the user's line.
    Times are seconds on the monotonic clock, which all processes of a machine share: ``waiting_s`` is when
    the rank began to wait for it, None where it has not; ``ended_s`` is None where it has not ended.
    ``threads`` is how many Python threads the rank had. ``own_work``: the caller got a work handle that it
    has to wait for. ``unseen``: it was started in C++, where its end is not seen. ``bounded``: the rank waits
    for it no longer than a timeout of the wait's own. ``raised``: it ended by an exception, and with
    ``refused`` before it communicated. ``by_library``: not the user's code made the call, but a library that
    it called.
    """

    signature: Signature
    sequence: int = 1
    number: int = 1
    started_s: float = 0.0
    waiting_s: float | None = None
    ended_s: float | None = None
    place: str = ""
    threads: int = 1
    own_work: bool = False
    unseen: bool = False
    bounded: bool = False
    raised: bool = False
    refused: bool = False
    by_library: bool = False

    @property
    def kind(self) -> Kind:
        """What the call waits for."""
        return self.signature.kind

    def shifted(self, seconds: float) -> Call:
        """The call with its times on a clock that shows so many seconds more."""
        return dataclasses.replace(
            self,
            started_s=self.started_s + seconds,
            waiting_s=None if self.waiting_s is None else self.waiting_s + seconds,
            ended_s=None if self.ended_s is None else self.ended_s + seconds,
        )

    @property
    def waits(self) -> bool:
        """Whether the rank waits for this call."""
        return self.waiting_s is not None and self.ended_s is None

    @property
    def name(self) -> str:
        """The call without its group: ``all_reduce #5``, ``recv from rank 2``, ``store.get('key')``."""
        s = self.signature
        if s.kind is Kind.SEND:
            return f"{s.object_list or 'send'} to rank {s.peer}{_tag(s.tag)}"
        if s.kind is Kind.RECEIVE:
            peer = "any rank" if s.peer is None else f"rank {s.peer}"
            return f"{s.object_list or 'recv'} from {peer}{_tag(s.tag)}"
        if s.kind in (Kind.STORE, Kind.SETTING):
            return f"{s.operation}({s.key!r})"
        if s.kind in (Kind.COLLECTIVE, Kind.LAYOUT):
            return f"{s.operation} #{self.number}"
        if s.kind is Kind.ANSWER:
            return f"{s.operation} {'from' if s.operation == 'to_here' else 'to'} {s.key}"
        return s.operation

    @property
    def brief(self) -> str:
        """The call with its group, unless that is the default group."""
        return self.name if self.signature.default else str(self)

    @property
    def at(self) -> str:
        """The user's line in brackets, with a space before; "" where it is unknown."""
        return f" ({self.place})" if self.place else ""

    def __str__(self) -> str:
        s = self.signature
        if s.kind is Kind.COLLECTIVE:
            return f"{self.name} of {s.group_text}"
        if s.kind is Kind.LAYOUT:
            return f"{self.name} on {s.group_text}"
        if s.kind is Kind.MAKING:
            return f"{self.name}, for {'all ranks' if s.default else f'the other ranks of {s.group_text}'}"
        if s.kind in (Kind.SEND, Kind.RECEIVE) and not s.default:
            return f"{self.name} in {s.group_text}"
        if s.workers and s.kind is Kind.STORE:
            return f"{self.name}, for {s.workers} workers"
        if s.kind is Kind.STORE and s.operation == "TCPStore":
            return f"{self.name}, for its server"
        return self.name


def _tag(tag: int) -> str:
    return f" with tag {tag}" if tag else ""


def to_json(value: Call | Signature) -> dict[str, Any]:
    """A call or a signature as JSON-able values, without defaults; lossless with ``call_from_json``."""
    defaults = _DEFAULTS[value.__class__]
    found = {name: getattr(value, name) for name in defaults if getattr(value, name) != defaults[name]}
    if isinstance(value, Call):
        found["signature"] = to_json(value.signature)
    elif "kind" in found:
        found["kind"] = value.kind.value
    return found


_DEFAULTS: dict[type, dict[str, Any]] = {
    kind: {f.name: f.default for f in dataclasses.fields(kind)} for kind in (Call, Signature)
}


def call_from_json(value: dict[str, Any]) -> Call:
    """The call of JSON values; KeyError, TypeError or ValueError where they are none."""
    signature = signature_from_json(value["signature"])
    return Call(**{**checked(Call, value), "signature": signature})


def signature_from_json(value: dict[str, Any]) -> Signature:
    """The signature of JSON values; KeyError, TypeError or ValueError where they are none."""
    checked(Signature, value)
    rich: dict[str, Any] = {n: tuple(value[n]) for n in ("members", "sent", "received") if n in value}
    if "kind" in value:
        rich["kind"] = Kind(value["kind"])
    return Signature(**{**value, **rich})


def under_way(calls: Iterable[Call]) -> Call | None:
    """The call that the rank was in, the innermost of several; None where it was in none.

    A call whose work handle the rank has not waited for is none that it was in.
    """
    latest_first = list(calls)[::-1]
    waiting = next((call for call in latest_first if call.waits), None)
    inside = (c for c in latest_first if c.ended_s is None and not c.own_work and not c.unseen)
    return waiting or next(inside, None)
